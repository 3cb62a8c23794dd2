"""What child processes around llama.cpp share: their environment, and an end that leaves nothing on the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HOME = "OMNIDRAFT_HOME"


def quiet_environment() -> dict[str, str]:
    """This process's environment for a child that needs no data home, and whose aborts need no debugger."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **{name: value for name, value in os.environ.items() if name != _HOME},
        "PYTHONPATH": path,
        "GGML_NO_BACKTRACE": "1",
    }


def leave_no_core() -> None:
    """No copy of this process's memory shall be written to the disk when it aborts: conversations are in it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
