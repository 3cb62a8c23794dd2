"""Fixtures every test may use: where the bundled models are, where the reference data may be."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def models() -> Path:
    """The bundled models' folder."""
    return ROOT / "models"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Reference vocabularies and data beside the checkout; the test is skipped where they are missing."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the reference folder ../shared is not beside this checkout")
    return folder
