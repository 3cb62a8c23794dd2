"""What a round costs on this machine: C(n), the seconds of a target pass over n rows, and D, those of a draft step.

C is a staircase that differs by model, machine and number of threads, so it is measured: at load where that is quick,
and by every real round. Its shape (by n) and its level (all n alike: a longer context, a busier machine) are tracked
apart. Figures that only the load measured are doubted where a wider pass was quicker, or two that share their rows
are; those of real rounds are believed: kernels that take four or eight rows at once do leftovers one by one.
"""

from __future__ import annotations

import os
import weakref
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import deepcopy
from statistics import median
from time import perf_counter, process_time
from typing import Protocol, runtime_checkable

import numpy as np
import psutil

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.errors import SettingsError
from omnidraft.processes.progress import tell

# What one more round moves the level: a tenth forgets a stall within 20 rounds and averages noise of 10% down to 2%; a
# figure is moved by half, so that a machine that becomes slower is no change of shape.
_RATE, _SHAPE_RATE = 0.1, 0.05
# The most over what is expected that a round counts as, since an interrupted one takes ten times as long; and the ratio
# below which it is believed at once, since interruptions only add time.
_CLAMP, _SUDDEN = 1.5, 0.8
# Rounds behind the last plain one after which a slow pass means a slower machine rather than dear rows.
NEAR = 32
# What one more row is taken to add to a pass before any was measured: between flat (0.05) and steep (0.9) kernels,
# near enough to flat that it is tried.
_HOPE = 0.3
_CONFIRMED = 3  # real rounds of a width before its figure counts as known
_TABLE = 17  # widths worked out at once: the longest draft and one


class CostModel:
    """Seconds. passes: figures of C(n) by width n; step: D. fixed: what a pass of several rows costs besides itself,
    because the next one of a single row takes longer. `threads` chooses whose figures count (0: as opened)."""

    def __init__(self, passes: Mapping[int, float], step: float, fixed: float = 0.0) -> None:
        if 1 not in passes or any(n < 1 or not s > 0 for n, s in passes.items()):
            raise SettingsError("A cost model needs a positive time for a pass of one row, and for every other width.")
        self.step, self.fixed = step, fixed
        self.kept: dict | None = None  # as it was when the processor last worked for this program alone
        self._figures = {(n, 0): s for n, s in passes.items()}  # by (width, threads), at level 1
        self._loaded = dict(self._figures)  # as they were measured without rounds
        self._levels = {0: 1.0}  # by threads
        self._rounds: dict[tuple[int, int], int] = {}  # real ones that a figure has seen
        self._threads = 0
        self._steps = 0
        self._unheard = NEAR  # wide rounds since the last plain one
        self._curve: list[float] = []  # by rows, at level 1

    @property
    def threads(self) -> int:
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        if count not in self._levels:  # begins like the nearest number known
            near = min(self._levels, key=lambda known: abs(known - count))
            self._figures |= {(n, count): s for (n, t), s in self._figures.items() if t == near}
            self._levels[count] = self._levels[near]
        self._threads, self._curve = count, []

    @property
    def passes(self) -> dict[int, float]:
        """The figures by width, with the present number of threads and at the present level."""
        level = self._levels[self._threads]
        return {n: s * level for (n, t), s in sorted(self._figures.items()) if t == self._threads}

    @property
    def least_seconds(self) -> float:
        """C(1) with the number of threads that is quickest."""
        return min(s * self._levels[t] for (n, t), s in self._figures.items() if n == 1)

    def pass_seconds(self, rows: int) -> float:
        """C(rows), `fixed` included."""
        return self.alone(rows) + (self.fixed if rows > 1 else 0.0)

    def alone(self, rows: int) -> float:
        """Likewise without `fixed`."""
        if rows >= len(self._curve):
            self._curve = [0.0, *self._work_out(max(rows, _TABLE))]
        return self._levels[self._threads] * self._curve[rows]

    def is_used(self, rows: int) -> bool:
        """Whether some real rounds had so many rows, or more."""
        return sum(count for (n, t), count in self._rounds.items() if n >= rows and t == self._threads) >= _CONFIRMED

    def observe_pass(self, rows: int, seconds: float, rounds: int = 1) -> None:
        """Real passes of `rows` rows took `seconds` each, `rounds` of them; those of one row were plain rounds."""
        expected, key = self.alone(rows), (rows, self._threads)
        ratio = min(seconds / expected, _CLAMP)
        self._unheard = 0 if rows == 1 else self._unheard + rounds
        self._rounds[key] = self._rounds.get(key, 0) + rounds
        seen = self._rounds[key] - rounds + (key in self._figures)
        if rows == 1 or (self._unheard > NEAR and seen > 1):
            share = 1.0 if rows == 1 and ratio < _SUDDEN else 1 - (1 - _RATE) ** rounds
            self._levels[self._threads] *= 1 + share * (ratio - 1)
            return
        before = expected / self._levels[self._threads]
        share = 1.0 if ratio < _SUDDEN else max(_SHAPE_RATE, 1 / (seen + 1))
        figure = self._figures.get(key, before)
        figure = figure if self._rounds[key] > rounds else min(figure, before)  # as the curve has it
        self._figures[key] = figure + share * (ratio * before - figure)
        contradicted = self._rounds[key] == _CONFIRMED and self._figures[key] * _SUDDEN > self._loaded.get(key, np.inf)
        if contradicted or (ratio < _SUDDEN and seen <= _CONFIRMED):  # doubtful, then, are those that no round has used
            used = {n for n, t in self._rounds if t == self._threads} | {1}
            for doubted in [k for k in self._figures if k[1] == self._threads and k[0] not in used]:
                del self._figures[doubted]
        if abs(self._figures[key] / before - 1) > 0.02 or not seen or self._rounds[key] == _CONFIRMED:
            self._curve = []  # worked out anew when next asked for

    def doubt(self) -> None:
        """The machine does something else now: what rounds said of widths may no longer hold."""
        self._rounds.clear()
        self._curve = []

    def observe_return(self, seconds: float) -> None:
        """A real pass of one row, right after a wider one, took `seconds`."""
        extra = seconds - self.alone(1)
        self.fixed = max(0.0, self.fixed + _RATE * (min(extra, self.alone(1)) - self.fixed))

    def observe_steps(self, steps: float, seconds: float) -> None:
        """`steps` drafter steps took `seconds` together; ids read on the way count as parts of one."""
        self._steps += 1
        each = min(seconds / steps, _CLAMP * self.step) if self._steps > 1 else seconds / steps
        self.step += max(_RATE, 1 / (self._steps + 1)) * (each - self.step)

    def keep(self) -> None:
        """What is known now was measured without other programs: it may be stored."""
        self.kept = self._present()

    def copy(self) -> CostModel:
        return deepcopy(self)

    def with_step(self, step: float) -> CostModel:
        """The same passes with another drafter's step."""
        made = self.copy()
        made.step, made._steps = step, 0
        if made.kept is not None:
            made.kept = {**made.kept, "step": step}
        return made

    def as_dict(self) -> dict:
        """What is worth storing; what is known now, while nothing is."""
        return self.kept or self._present()

    def _present(self) -> dict:
        passes: dict[str, dict[str, float]] = {}
        for (n, threads), seconds in sorted(self._figures.items()):
            passes.setdefault(str(threads), {})[str(n)] = seconds * self._levels[threads]
        return {"passes": passes, "step": self.step, "fixed": self.fixed}

    @classmethod
    def from_dict(cls, data: Mapping) -> CostModel:
        """SettingsError or KeyError/ValueError/TypeError/AttributeError for what `as_dict` did not write."""
        tables = data["passes"]
        found = cls({int(n): float(s) for n, s in tables["0"].items()}, float(data["step"]), float(data["fixed"]))
        for threads, table in tables.items():
            found._figures |= {(int(n), int(threads)): float(s) for n, s in table.items()}
            found._levels[int(threads)] = 1.0
        found.keep()
        return found

    def _work_out(self, rows: int) -> list[float]:
        known = {n: s for (n, t), s in self._figures.items() if t == self._threads}
        if len(known) == 1:
            return [known[1] * (1 + _HOPE * (n - 1)) for n in range(1, rows + 1)]
        widths = sorted(known)
        used = [self._rounds.get((n, self._threads), 0) >= _CONFIRMED for n in widths]
        figures = _rising([known[n] for n in widths], used)
        dear = [figure > min(figures[i:]) for i, figure in enumerate(figures)]  # than a wider one, by real rounds
        curve, floor = [0.0], 0.0
        for n in range(1, rows + 1):
            found = _between(widths, figures, n)
            shared = min((curve[i] + curve[n - i] for i in range(1, n // 2 + 1)), default=found)
            believed = found if found <= _CLAMP * shared else shared
            below = bisect_right(widths, n) - 1
            if not any(dear[below : below + 1 if n in known else below + 2]):
                believed = floor = max(believed, floor)
            elif n not in known:
                believed = max(believed, curve[-1])
            curve.append(believed)
        return curve[1:]


def _rising(figures: Sequence[float], used: Sequence[bool]) -> list[float]:
    """The figures without falls, but for those of real rounds: interruptions only add time, so the wider pass is right
    where it was quicker. One row is always the cheapest."""
    found = list(figures)
    for i in range(len(found) - 1, 0, -1):
        if not used[i - 1]:
            found[i - 1] = min(found[i - 1], found[i])
    return [min(found), *found[1:]]


def _between(widths: Sequence[int], figures: Sequence[float], rows: int) -> float:
    """On the line between (beyond: through) the nearest widths."""
    above = max(1, next((i for i, n in enumerate(widths) if n >= rows), len(widths) - 1))
    low, high = widths[above - 1], widths[above]
    return figures[above - 1] + (figures[above] - figures[above - 1]) / (high - low) * (rows - low)


# Whether the processor worked for this program: what was timed while others had it says nothing about a model. The
# sign, on every system: the processors had no time left while other programs (or, in a virtual machine, other guests)
# used some of it.


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


class Watch:
    """Compares, from one question to the next, what the processors did with what they did for this program."""

    def __init__(self, quiet: bool = True) -> None:
        """quiet: the answer before the first."""
        self._cpus = _allowed()
        self._last = self._now()
        self.quiet = quiet

    def look(self) -> bool:
        """Whether others left the processors alone since the last look that could tell; the last answer if it is too
        soon to tell."""
        if perf_counter() - self._last[0] < _WINDOW:
            return self.quiet
        now = self._now()
        wall, busy, own = (b - a for a, b in zip(self._last, now, strict=True))
        self._last = now
        idle = 1.0 - busy / (wall * len(self._cpus))
        self.quiet = busy - own < _OTHERS * wall or idle > _IDLE
        return self.quiet

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


# Measures what passes and draft steps cost, before the first answer, within a time budget.


# Narrow ones first. 7 and 9: kernels take four or eight rows at once, and leftovers one by one.
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 7, 9, 12)
# Of each, how many times at least, and at most while fewer than two agree: a median of three survives one interruption.
_REPEATS, _TRIES = 3, 6
_AGREE = 1.2  # ratio of two times that say the same: processors change their clock by as much


def measure_costs(target: LanguageModel, drafter: DraftModel | None, budget: float) -> CostModel:
    """C(n) for as many widths as `budget` (seconds) allows, and D. Empties both caches.

    A large model whose single pass uses much of the budget keeps that one figure; real rounds fill in the rest. Nothing
    is worth storing if others used the processors meanwhile.
    """
    watch, found = Watch(), {}
    _pass_seconds(target, 1)  # pays for pages and buffers
    start = perf_counter()
    end, longest = start + budget, 0.0
    widest = getattr(target, "widest", max(WIDTHS)) if target.can_rewind else 1
    widths = [width for width in WIDTHS if width <= widest]
    for done, width in enumerate(widths):
        tell("measuring what passes take", done / len(widths))
        if width > 1 and perf_counter() + 2 * longest * _REPEATS > end:
            break
        found[width], slowest = _width_seconds(target, width, end)
        longest = max(longest, slowest)
    fixed = _fixed_seconds(target, found[1], min(4, widest)) if len(found) == len(widths) else 0.0
    step = step_seconds(drafter) if drafter is not None else found[1]
    target.rewind(0)
    cost = CostModel(found, step, fixed)
    if watch.look():
        cost.keep()
    return cost


def step_seconds(drafter: DraftModel, repeats: int = 2 * _REPEATS) -> float:
    """D. Empties the cache."""
    _pass_seconds(drafter, 1)  # pays for pages and buffers
    step = _steady([_pass_seconds(drafter, 1) for _ in range(repeats)])[0]
    drafter.rewind(0)
    return step


def _width_seconds(target: LanguageModel, width: int, end: float) -> tuple[float, float]:
    """(what a pass takes, the longest of those timed). In answers widths mostly differ from one pass to the next."""
    times: list[float] = []
    while len(times) < _REPEATS or (len(times) < _TRIES and _steady(times)[1] < 2):
        if width > 1:
            _pass_seconds(target, 1)
        times.append(_pass_seconds(target, width))
        if perf_counter() + max(times) > end:
            break
    return _steady(times)[0], max(times)


def _steady(times: list[float]) -> tuple[float, int]:
    """(the median of the times that agree with the fastest, as interruptions only add time; how many do)."""
    agreeing = [t for t in times if t <= _AGREE * min(times)]
    return median(agreeing), len(agreeing)


def _fixed_seconds(target: LanguageModel, narrow: float, wide: int) -> float:
    """What a pass of one row takes longer than `narrow` right after one of `wide` rows."""
    after = []
    for _ in range(_REPEATS):
        _pass_seconds(target, wide)
        after.append(_pass_seconds(target, 1))
    return max(0.0, min(after) - narrow)


def _pass_seconds(model: LanguageModel, width: int) -> float:
    """One pass of `width` rows behind a few tokens of context, and taking a token of it back: every round with
    a rejection ends so, and some kinds of memory then read tokens again."""
    ordinary = model.vocabulary.ordinary.nonzero()[0][:64].tolist()
    if not model.can_rewind:
        model.rewind(0)
    elif len(model.tokens) < 16:
        model.rewind(0)
        model.extend([ordinary[i % len(ordinary)] for i in range(16)], 0)
    else:
        model.rewind(16)
    ids = [ordinary[i % len(ordinary)] for i in range(width)]
    start = perf_counter()
    model.extend(ids, len(ids))
    if width > 1:
        model.rewind(len(model.tokens) - 1)
    return perf_counter() - start
