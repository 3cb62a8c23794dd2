"""The type checker finds nothing in the packages that pyproject.toml has it check."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.timeout(1200)  # a busy machine takes minutes for the first run; later ones find its cache
def test_the_types_fit():
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
