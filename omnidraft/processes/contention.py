"""Whether the processor worked for this program: what was timed while others had it says nothing about a model.

The sign, on every system: the processors had no time left while other programs (or, in a virtual machine, other guests)
used some of it.
"""

from __future__ import annotations

import os
import weakref
from time import perf_counter, process_time
from typing import Protocol, runtime_checkable

import psutil

_WINDOW = 0.2  # seconds, in which systems that count processor time in hundredths are 5% wrong
_OTHERS = 0.25  # processors used by others: more than what a desktop's own services take ...
_IDLE = 0.15  # ... while less than this of all their time is left, so that what they take is missing here


@runtime_checkable
class Apart(Protocol):
    """What computes for this program in a process of its own."""

    def processor_seconds(self) -> float: ...


_apart: weakref.WeakSet[Apart] = weakref.WeakSet()


def counts_as_ours(worker: Apart) -> None:
    """What runs in a process of its own for this program, and tells so by `processor_seconds()`, is none of others."""
    _apart.add(worker)


class Contention:
    """Compares, from one question to the next, what the processors did with what they did for this program."""

    def __init__(self, quiet: bool = True) -> None:
        """quiet: the answer before the first."""
        self._cpus = _allowed()
        self._last = self._now()
        self._quiet, self._left = quiet, float(len(self._cpus))

    def quiet_since(self) -> bool:
        """Whether others left the processors alone since the last question; the last answer if that is too short ago to
        tell."""
        self._look()
        return self._quiet

    def left_since(self) -> float:
        """How many processors others left to this program since then, likewise."""
        self._look()
        return self._left

    def _look(self) -> None:
        if perf_counter() - self._last[0] < _WINDOW:
            return
        now = self._now()
        wall, busy, own = (b - a for a, b in zip(self._last, now, strict=True))
        self._last = now
        idle, others = len(self._cpus) - busy / wall, (busy - own) / wall
        self._left = len(self._cpus) - others
        self._quiet = others < _OTHERS or idle > _IDLE * len(self._cpus)

    def _now(self) -> tuple[float, float, float]:
        """(wall, all processors' busy, this program's) seconds."""
        times = psutil.cpu_times(percpu=True)
        busy = sum(sum(t) - t.idle - getattr(t, "iowait", 0.0) for t in (times[i] for i in self._cpus))
        return perf_counter(), busy, process_time() + sum(one.processor_seconds() for one in _apart)


def _allowed() -> list[int]:
    count = psutil.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return [cpu for cpu in os.sched_getaffinity(0) if cpu < count] or [0]
    return list(range(count))
