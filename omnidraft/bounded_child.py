"""Runs a module of ours in a child process that may crash, hang or fill the memory without harm: `run_bounded`.

All that differs between systems is here: Linux and macOS limit the child's memory and time themselves and end it with
all it started, Windows has only the clock. The child says what it wants to say as one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_POSIX = os.name == "posix"


@dataclass(frozen=True, slots=True)
class Outcome:
    """answer: what the child said, None if it crashed before; late: it was ended because its time was over."""

    answer: Any
    late: bool
    code: int


def run_bounded(
    module: str, request: dict[str, Any], seconds: float, memory: int, environment: dict[str, str]
) -> Outcome:
    """`python -m module`, with the request and its limits as JSON; `memory` in bytes. OSError if it cannot start."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, json.dumps({**request, "seconds": seconds, "memory": memory})],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "GGML_NO_BACKTRACE": "1", **environment}, start_new_session=_POSIX,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=seconds)
        late = False
    except subprocess.TimeoutExpired:
        _end(process)
        said, late = b"", True
    except BaseException:
        _end(process)
        raise
    lines = said.splitlines()
    try:
        answer = json.loads(lines[-1]) if process.returncode == 0 and lines else None
    except ValueError:
        answer = None
    return Outcome(answer, late, process.returncode)


def limit_this_process(seconds: float, memory: int) -> None:
    """For the child: no more memory, processor time or copies of its memory on the disk than that."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock has to do
        return
    cores = os.cpu_count() or 1
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, int(seconds * cores) + 1)]
    if sys.platform == "linux":  # elsewhere this limit is refused, or does not count what is mapped
        limits.append((resource.RLIMIT_DATA, memory))
    for kind, value in limits:
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if _POSIX:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()
