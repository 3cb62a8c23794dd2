"""What child processes around llama.cpp share: their environment."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_HOME = "OMNIDRAFT_HOME"


def quiet_environment() -> dict[str, str]:
    """This process's environment for a child that needs no data home, and whose aborts need no debugger."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **{name: value for name, value in os.environ.items() if name != _HOME},
        "PYTHONPATH": path,
        "GGML_NO_BACKTRACE": "1",
    }
