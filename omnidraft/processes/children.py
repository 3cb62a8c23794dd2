"""Runs a module of ours in a child process that may crash, hang or fill the memory without harm.

Where the system limits memory and time the child asks it to (`system`); the clock here holds everywhere, and stands
while the child waits for a processor or a disk that others have. The child is asked on its stdin, where nobody else on
the machine can read it, and ends when that closes: with this program at the latest. It says what it wants to say as
lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import psutil

from omnidraft.processes import system
from omnidraft.processes.progress import interruptible

# A module of ours in a process of its own that talks in lines: asked on its stdin, heard from its stdout. What it
# writes to stderr is kept, for the sentence that explains its end. Knows nothing of what is said; a child that answers
# once and may crash is run by `run_bounded`.


ROOT = Path(__file__).resolve().parents[2]


class LineChild:
    """`python -m module`, running. It leads a process group of its own, so that Ctrl+C in the terminal is left to us.

    One thread reads `lines` and then calls `ended`; the others may be called from anywhere. environment: variables it
    has besides ours. keeps_errors: for a child that writes a log as long as it runs there is nothing to keep.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        keeps_errors: bool = True,
    ) -> None:
        self._errors = tempfile.TemporaryFile() if keeps_errors else None  # noqa: SIM115 - open until it has ended
        ours = {"GGML_NO_BACKTRACE": "1", "PYTHONIOENCODING": "utf-8"}  # whoever aborts needs no debugger
        given = {**os.environ, **ours, **environment}
        path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors or subprocess.DEVNULL,
            env={**given, "PYTHONPATH": path}, encoding="utf-8", **system.own_group(),
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def say(self, text: str) -> None:
        """Write to its stdin; it does not matter if it has just ended."""
        with suppress(OSError, ValueError):
            if self.process.stdin is not None:
                self.process.stdin.write(text)
                self.process.stdin.flush()

    def lines(self) -> Iterator[str]:
        """What it says, line by line, until it closes its side. Whoever stops early can go on where he stopped."""
        return iter(self.process.stdout or ())

    def ended(self) -> int:
        """Wait until it has ended and let go of its pipes; its exit code."""
        code = self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            with suppress(OSError):
                pipe.close()
        return code

    def kill(self) -> None:
        """End it at once; returns when its memory is released."""
        with suppress(OSError):
            self.process.kill()
        self.process.wait()

    def last_words(self, most: int = 4000) -> str:
        """The end of what it wrote to stderr, which is let go of: ask once, when it has ended."""
        if self._errors is None:
            return ""
        with self._errors as errors:
            errors.seek(0)
            return errors.read()[-most:].decode("utf-8", "replace").strip()


_LOOK = 0.25  # seconds between looks at what a child has computed
# What ends a process for reasons that lie outside it; Linux sends the first where memory is short.
_FROM_OUTSIDE = tuple(-signal.Signals[name] for name in ("SIGKILL", "SIGTERM", "SIGINT") if hasattr(signal, name))
_TIME_OVER = tuple(-signal.Signals[name] for name in ("SIGXCPU",) if hasattr(signal, name))  # the system counts, too


@dataclass(frozen=True, slots=True)
class Outcome:
    """answer: what the child said, None if it crashed before; late: it was ended because its time was over."""

    answer: Any
    late: bool
    code: int

    @property
    def killed(self) -> bool:
        """Whether somebody else ended it, which says nothing about what it was asked."""
        return not self.late and self.code in _FROM_OUTSIDE


class BoundedChild:
    """`python -m module`, asked `request`; `memory` in bytes. OSError if it cannot start.

    `seconds` pass while it computes, on however many cores. Waiting for a processor or a disk takes none of them, but
    one that computes nothing at all for as long hangs. late, code: as of an `Outcome`, once all of `lines` was read.
    """

    def __init__(
        self, module: str, request: dict[str, Any], seconds: float, memory: int, environment: dict[str, str]
    ) -> None:
        self.late = False
        self._child = LineChild(module, environment=environment, keeps_errors=False)
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(seconds,), daemon=True).start()
        self._child.say(json.dumps({**request, "seconds": seconds, "memory": memory}) + "\n")

    @property
    def code(self) -> int:
        return self._child.process.returncode

    def lines(self) -> Iterator[str]:
        """What it says, until it ends; whoever stops reading before ends it."""
        try:
            yield from self._child.lines()
            self._child.process.wait()
            self.late |= self.code in _TIME_OVER
        finally:
            self._over.set()
            self.end()
            self._child.ended()

    def _watch(self, seconds: float) -> None:
        """End the child when its time is over."""
        spent = still = computed = 0.0
        looked = perf_counter()
        with suppress(psutil.Error):
            watched = psutil.Process(self._child.pid)
            while max(spent, still) < seconds:
                if self._over.wait(_LOOK):
                    return
                now, times = perf_counter(), watched.cpu_times()
                new = times.user + times.system - computed
                spent += min(new, now - looked)
                still = 0.0 if new > 0 else still + _LOOK  # not by the clock, which goes on while the machine sleeps
                computed, looked = computed + new, now
            self.late = True
            self.end()

    def end(self) -> None:
        if self._child.running:
            system.end_group(self._child.process)


def run_bounded(
    module: str, request: dict[str, Any], seconds: float, memory: int, environment: dict[str, str]
) -> Outcome:
    """What a `BoundedChild` says in its last line. OSError if it cannot start, CalledOff if nobody waits any more."""
    child = BoundedChild(module, request, seconds, memory, environment)
    with interruptible(child.end):
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
