"""Runs a module of ours in a child process that may crash, hang or fill the memory without harm: `run_bounded`.

Where the system limits memory and time the child asks it to (`system`); the clock here holds everywhere. The child says
what it wants to say as one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.processes import system

ROOT = Path(__file__).resolve().parents[2]


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
        env={**os.environ, "GGML_NO_BACKTRACE": "1", **environment}, **system.own_session(),
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
    system.leave_no_core()
    system.limit_processor(seconds)
    system.limit_memory(memory)


def _end(process: subprocess.Popen[bytes]) -> None:
    system.end_session(process)
    process.communicate()
