"""Runs a module of ours in a child process that may crash, hang or fill the memory without harm.

Where the system limits memory and time the child asks it to (`system`); the clock here holds everywhere. The child is
asked on its stdin, where nobody else on the machine can read it, and ends when that closes: with this program at the
latest. It says what it wants to say as lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from omnidraft.processes import system
from omnidraft.processes.line_child import LineChild


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
        self._child = LineChild(module, environment=environment, keeps_errors=False)
        self._clock = threading.Timer(seconds, self._end_late)
        self._clock.daemon = True
        self._clock.start()
        self._child.say(json.dumps({**request, "seconds": seconds, "memory": memory}) + "\n")

    @property
    def code(self) -> int:
        return self._child.process.returncode

    def lines(self) -> Iterator[str]:
        """What it says, until it ends; whoever stops reading before ends it."""
        try:
            yield from self._child.lines()
            self._child.process.wait()
        finally:
            self._clock.cancel()
            self._end()
            self._child.ended()

    def _end_late(self) -> None:
        self.late = True
        self._end()

    def _end(self) -> None:
        if self._child.running:
            system.end_group(self._child.process)


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
