"""Lets go of the helper threads that computing leaves behind.

GNU OpenMP, which llama.cpp's builds for Linux compute with, keeps a pool of helpers for *every* thread that ever
computed. Once all pools together outnumber the processors, helpers no longer spin while they wait but sleep, and
waking them takes longer than the work: on two cores a pass of a 4M target took 6.4 ms in the second thread that
computed and 1.2 ms in the first. So whoever is done for the moment releases its own pool: a model behind opening
and whenever it is emptied, an answer at its end. A new pool takes about a tenth of a millisecond.

Knows no model, and loads nothing: without llama.cpp, or where it computes otherwise, there is nothing to release.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections import deque
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from types import ModuleType

from omnidraft.processes.contention import Contention
from omnidraft.processes.trying import FIRST, LAST, RENEWING, Patience, Usual

# How many threads a model's passes take, chosen while it computes, by what the passes really take. Threads wait for
# each other behind every operation of a pass, and one that lost its core to another program makes all others wait:
# beside one busy program two threads on two cores took 88 ms for a pass that one thread does in 14. So the number is
# tried, never assumed: the neighbouring one for a few passes, which it keeps if they were quicker. Knows neither
# models nor libraries; whoever computes asks for `count` before a pass and tells `passed` behind it.


_STALLED = 1.25  # times the usual: passes that take so long are reason to try fewer threads at once
_QUICKER = 0.94  # of the time before: less gain is within what passes differ by anyway
_HOPELESS = 1.2  # times the time before: a trial ends behind the first pass that takes so long
_SPARE = 0.5  # of a processor that others leave: with less of it one more thread would wait for a core
_FEWER, _MORE = -1, 1


class ThreadChoice:
    """count: threads of the next pass, between `least` and `most`. judged: passes before a number is."""

    def __init__(self, most: int, least: int = 1, judged: int = RENEWING) -> None:
        self.count = self.most = most
        self._ladder = [count for count in ladder(most) if count >= least]
        self._judged = judged
        self._usual: dict[tuple[int, Hashable], Usual] = {}  # (threads, kind of pass): seconds
        self._recent: deque[tuple[float, float]] = deque(maxlen=judged)  # (seconds, usual ones) of the last passes
        self._patience = {_FEWER: Patience(), _MORE: Patience()}
        self._trial: _Trial | None = None
        self._processors = Contention()

    def passed(self, kind: Hashable, seconds: float) -> None:
        """A pass with `count` threads took `seconds`. kind: passes of the same one cost alike, such as of so
        many rows, and behind others that had the caches or not."""
        if len(self._ladder) < 2:
            return
        usual = self._learn(kind, seconds)
        if self._trial is not None:
            self._go_on(self._trial, kind, seconds)
            return
        self._recent.append((seconds, usual))
        for patience in self._patience.values():
            patience.waited += 1
        if len(self._recent) < self._judged:
            return
        due = next((way for way in self._patience if self._is_due(way)), None)
        if due is not None:
            self._trial = _Trial(self.count, due, self._slowness())
            self.count = self._ladder[self._ladder.index(self.count) + due]

    def _learn(self, kind: Hashable, seconds: float) -> float:
        """The usual seconds of such a pass until now."""
        usual = self._usual.setdefault((self.count, kind), Usual(seconds))
        before = usual.value
        usual.add(seconds)
        return before

    def _slowness(self) -> float:
        """What the last passes took, over what they usually take."""
        return sum(taken for taken, _ in self._recent) / sum(usual for _, usual in self._recent)

    def _is_due(self, way: int) -> bool:
        patience = self._patience[way]
        if patience.waited < FIRST * self._judged or not 0 <= self._ladder.index(self.count) + way < len(self._ladder):
            return False
        waits = patience.left(self._judged) > 0
        if way == _FEWER:
            return not waits or self._slowness() > _STALLED
        return not waits and (patience.waited >= LAST * self._judged or self._is_one_spare())

    def _is_one_spare(self) -> bool:
        """Whether others leave a processor for one more thread. A drafter's target computes between its steps, and is
        none of them."""
        return self._processors.left_since() >= self.count + _SPARE

    def _go_on(self, trial: _Trial, kind: Hashable, seconds: float) -> None:
        before = self._usual.get((trial.before, kind))
        trial.add(seconds, before.value if before is not None else None)
        if not trial.is_over(self._judged):
            return
        self._trial = None
        self._recent.clear()
        self._patience[trial.way].tried()
        if trial.ratio < _QUICKER:
            for patience in self._patience.values():
                patience.renew()
        else:
            self.count = trial.before


class _Trial:
    """Passes with another number of threads. before: the one that was left; slowness: of its last passes."""

    def __init__(self, before: int, way: int, slowness: float) -> None:
        self.before, self.way = before, way
        self._slowness = slowness
        self._taken = self._expected = 0.0
        self._passes = 0

    def add(self, seconds: float, usual: float | None) -> None:
        """usual: seconds of such a pass before; None where there was none to compare with."""
        if usual is not None:
            self._passes += 1
            self._taken += seconds
            self._expected += self._slowness * usual

    @property
    def ratio(self) -> float:
        return self._taken / self._expected

    def is_over(self, judged: int) -> bool:
        return self._passes >= judged or (self._passes > 0 and self.ratio > _HOPELESS)


def ladder(most: int) -> list[int]:
    """Numbers of threads worth a trial, rising: halves, one fewer than all (a busy program takes one core), and all."""
    halves = {most >> shift for shift in range(most.bit_length())}
    return sorted({*halves, most, max(1, most - 1)} - {0})


# How many threads computing should use on this machine.


_CPUS = Path("/sys/devices/system/cpu")
_WORTH_A_THREAD = 3 << 20  # bytes of weights read
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@cache
def physical_cores() -> int:
    """Physical cores this process may use, at least 1.

    Two hardware threads of one core share the arithmetic units that matrix products keep busy, so a second one only
    adds waiting. A container's processor quota counts too: threads beyond it are put to sleep in the middle of a pass.
    """
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        allowed = set(range(os.cpu_count() or 1))
    siblings = {_read(_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list") or str(cpu) for cpu in allowed}
    quota, _, period = _read(_QUOTA).partition(" ")
    if quota.isdigit() and period.isdigit():
        return max(1, min(len(siblings), math.ceil(int(quota) / int(period))))
    return max(1, len(siblings))


def step_threads(weights: int) -> int:
    """How many threads a pass of a few tokens is worth, which reads `weights` bytes.

    Threads wait for each other behind every operation, and whoever shares the machine makes them wait long: steps of
    a drafter of 2.4 MB took 0.28 ms with one thread and 0.31 with two while the second core was free, and 0.4 against
    65 while it was not.
    """
    return min(physical_cores(), max(1, round(weights / _WORTH_A_THREAD)))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


_HARD = 2  # omp_pause_hard


@cache
def _openmp(llama_cpp: ModuleType) -> ctypes.CDLL | None:
    """The GNU OpenMP that llama.cpp computes with; None if it is another one, or too old to release anything."""
    try:
        # loaded already; a handle also finds what the library is linked to
        library = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__ or ""), "lib", "libggml-cpu.so"))
    except OSError:
        return None
    # LLVM's has one pool for all threads, and pausing would end it under the others
    gnu = hasattr(library, "GOMP_parallel") and not hasattr(library, "__kmpc_fork_call")
    return library if gnu and hasattr(library, "omp_pause_resource_all") else None


def release_helpers() -> bool:
    """End the helpers of the calling thread; its next pass starts new ones. False if there is no way to."""
    llama_cpp = sys.modules.get("llama_cpp")
    openmp = _openmp(llama_cpp) if llama_cpp is not None else None
    if openmp is None:
        return False
    threads = openmp.omp_get_max_threads()
    released = openmp.omp_pause_resource_all(_HARD) == 0
    if openmp.omp_get_max_threads() != threads:  # PyTorch may share the library, and set this for this thread
        openmp.omp_set_num_threads(threads)
    return released
