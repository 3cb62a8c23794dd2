"""Runs a module of ours in a child process that may crash, hang or fill the memory without harm.

Where the system limits memory and time the child asks it to (`system`); the clock here holds everywhere. The child is
asked on its stdin, where nobody else on the machine can read it, and ends when that closes: with this program at the
latest. It says what it wants to say as lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
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


class BoundedChild:
    """`python -m module`, asked `request`; `memory` in bytes. OSError if it cannot start.

    late, code: as of an `Outcome`, once all of `lines` was read.
    """

    def __init__(
        self, module: str, request: dict[str, Any], seconds: float, memory: int, environment: dict[str, str]
    ) -> None:
        self.late = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, "GGML_NO_BACKTRACE": "1", **environment},
            **system.own_session(),
        )  # fmt: skip
        self._clock = threading.Timer(seconds, self._end_late)
        self._clock.daemon = True
        self._clock.start()
        assert self._process.stdin is not None
        with suppress(OSError):  # it crashed at once
            self._process.stdin.write(json.dumps({**request, "seconds": seconds, "memory": memory}).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def code(self) -> int:
        return self._process.returncode

    def lines(self) -> Iterator[bytes]:
        """What it says, until it ends; whoever stops reading before ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            yield from self._process.stdout
            self._process.wait()
        finally:
            self._clock.cancel()
            self._end()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    pipe.close()

    def _end_late(self) -> None:
        self.late = True
        self._end()

    def _end(self) -> None:
        if self._process.poll() is None:
            system.end_session(self._process)


def run_bounded(
    module: str, request: dict[str, Any], seconds: float, memory: int, environment: dict[str, str]
) -> Outcome:
    """What a `BoundedChild` says in its last line. OSError if it cannot start."""
    child = BoundedChild(module, request, seconds, memory, environment)
    last = deque(child.lines(), maxlen=1)
    try:
        answer = json.loads(last[0]) if last and child.code == 0 and not child.late else None
    except ValueError:
        answer = None
    return Outcome(answer, child.late, child.code)


def asked() -> dict[str, Any]:
    """For the child: its request. From here on its limits hold: no more memory or processor time, no copy of its memory
    on the disk, and no longer life than its parent's."""
    request: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    system.leave_no_core()
    system.limit_processor(request["seconds"])
    system.limit_memory(request["memory"])
    return request


def _end_with_parent() -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock would be held when the interpreter ends
        pass
    os._exit(1)
