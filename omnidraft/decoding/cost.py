"""What a round costs on this machine: C(n), the seconds of a target pass over n rows, and D, those of a draft step.

Measured before the first answer, within a time budget, then tracked by what real rounds take: its shape (by rows) and
its level (all rows alike: a longer context, a busier machine) apart. Knows nothing of what is decided by it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from statistics import median
from time import perf_counter

import numpy as np

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.errors import SettingsError
from omnidraft.processes.contention import Contention
from omnidraft.processes.progress import tell

# Of a moving average of seconds, per round: a stall is forgotten within 20 rounds, noise of 10% averaged down to 2%.
RATE = 0.1
# The most over what is expected that a round counts as, since an interrupted one takes ten times as long ...
CLAMP = 1.5
# ... and the ratio below which it is believed at once, since interruptions only add time.
SUDDEN = 0.8
# Rounds since the last plain one after which a slow pass means a slower machine rather than dear rows; also the longest
# that drafting goes untried where it is only expected not to pay.
NEAR = 32
# What one more row adds to a pass before any was measured: between flat (0.05) and steep (0.9) kernels, near enough to
# flat that it is tried.
HOPE = 0.3
# Real rounds of a width before its figure counts as known.
CONFIRMED = 3


class PassTimes:
    """C(n) with one number of threads. shape: seconds by rows at level 1, as the load measured or real rounds did."""

    def __init__(self, shape: Mapping[int, float]) -> None:
        self.shape, self.level = dict(shape), 1.0
        self._loaded = dict(shape)
        self._rounds: Counter[int] = Counter()  # real ones, by rows
        self._unheard = NEAR  # wide rounds since the last plain one
        self._curve: list[float] = []  # by rows, at level 1

    def seconds(self, rows: int) -> float:
        if rows >= len(self._curve):
            self._curve = self._work_out(max(2 * rows, 16))
        return self.level * self._curve[rows]

    def is_used(self, rows: int) -> bool:
        """Whether some real rounds had so many rows, or more."""
        return sum(count for n, count in self._rounds.items() if n >= rows) >= CONFIRMED

    def observe(self, rows: int, seconds: float, rounds: int) -> None:
        """Real passes of `rows` rows took `seconds` each, `rounds` of them."""
        expected = self.seconds(rows)
        ratio, before = min(seconds / expected, CLAMP), expected / self.level
        seen = self._rounds[rows] + (rows in self.shape)
        self._rounds[rows] += rounds
        self._unheard = 0 if rows == 1 else self._unheard + rounds
        if rows == 1 or (self._unheard > NEAR and seen > 1):
            share = 1.0 if rows == 1 and ratio < SUDDEN else 1 - (1 - RATE) ** rounds
            self.level *= 1 + share * (ratio - 1)
            return
        figure = self.shape.get(rows, before)
        figure = figure if self._rounds[rows] > rounds else min(figure, before)  # as the curve has it
        share = 1.0 if ratio < SUDDEN else max(RATE / 2, 1 / (seen + 1))
        self.shape[rows] = figure + share * (ratio * before - figure)
        confirmed = self._rounds[rows] == CONFIRMED
        wrong = confirmed and self.shape[rows] * SUDDEN > self._loaded.get(rows, np.inf)
        if wrong or (ratio < SUDDEN and seen <= CONFIRMED):  # then so may be all that no round has used
            self.shape = {n: s for n, s in self.shape.items() if n in self._rounds or n == 1}
            self._curve = []
        if abs(self.shape[rows] / before - 1) > 0.02 or not seen or confirmed:
            self._curve = []

    def doubt(self) -> None:
        """The machine does something else now: what rounds said of widths may no longer hold."""
        self._rounds.clear()
        self._curve = []

    def _work_out(self, widest: int) -> list[float]:
        """Interruptions only add time: a wider pass that was quicker is right, unless real rounds found the width
        dearer (kernels that take four rows at once do leftovers one by one), and so are two that share the rows."""
        widths, figures = sorted(self.shape), self._rising()
        dear = [figure > min(figures[i:]) for i, figure in enumerate(figures)]  # than a wider one, by real rounds
        curve, floor = [0.0], 0.0
        for rows in range(1, widest + 1):
            found = _between(widths, figures, rows)
            shared = min((curve[i] + curve[rows - i] for i in range(1, rows // 2 + 1)), default=found)
            believed = found if found <= CLAMP * shared else shared
            below, known = bisect_right(widths, rows) - 1, rows in self.shape
            if not any(dear[below : below + (1 if known else 2)]):
                believed = floor = max(believed, floor)
            elif not known:
                believed = max(believed, curve[-1])
            curve.append(believed)
        return curve

    def _rising(self) -> list[float]:
        """The figures, in order of width, without falls but for those of real rounds; one row is the cheapest."""
        widths = sorted(self.shape)
        found = [self.shape[n] for n in widths]
        for i in range(len(found) - 1, 0, -1):
            if self._rounds[widths[i - 1]] < CONFIRMED:
                found[i - 1] = min(found[i - 1], found[i])
        return [min(found), *found[1:]]


def _between(widths: Sequence[int], figures: Sequence[float], rows: int) -> float:
    """On the line between (beyond: through) the nearest widths."""
    if len(widths) == 1:
        return figures[0] * (1 + HOPE * (rows - 1))
    above = min(max(1, bisect_right(widths, rows - 1)), len(widths) - 1)
    low, high = widths[above - 1], widths[above]
    return figures[above - 1] + (figures[above] - figures[above - 1]) / (high - low) * (rows - low)


class CostModel:
    """What a round costs on this machine, in seconds. step: D. fixed: what a pass of several rows costs besides itself,
    because the next one of a single row takes longer. `threads` chooses whose figures count (0: as opened)."""

    def __init__(self, passes: Mapping[int, float], step: float, fixed: float = 0.0) -> None:
        if 1 not in passes or any(n < 1 or not s > 0 for n, s in passes.items()):
            raise SettingsError("A cost model needs a positive time for a pass of one row, and for every other width.")
        self.step, self.fixed = step, fixed
        self.kept: dict | None = None  # as it was when the processor last worked for this program alone
        self._by_threads = {0: PassTimes(passes)}
        self._threads = 0
        self._steps = 0

    @property
    def threads(self) -> int:
        return self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        if count not in self._by_threads:  # begins like the nearest number known
            near = min(self._by_threads, key=lambda known: abs(known - count))
            self._by_threads[count] = times = PassTimes(self._by_threads[near].shape)
            times.level = self._by_threads[near].level
        self._threads = count

    @property
    def now(self) -> PassTimes:
        """With the present number of threads."""
        return self._by_threads[self._threads]

    @property
    def passes(self) -> dict[int, float]:
        """The figures by width, with the present number of threads and at the present level."""
        return {n: s * self.now.level for n, s in sorted(self.now.shape.items())}

    @property
    def least_seconds(self) -> float:
        """C(1) with the number of threads that is quickest."""
        return min(times.shape[1] * times.level for times in self._by_threads.values())

    def pass_seconds(self, rows: int) -> float:
        """C(rows), `fixed` included."""
        return self.alone(rows) + (self.fixed if rows > 1 else 0.0)

    def alone(self, rows: int) -> float:
        """Likewise without `fixed`."""
        return self.now.seconds(rows)

    def observe_pass(self, rows: int, seconds: float, rounds: int = 1) -> None:
        """Real passes of `rows` rows took `seconds` each, `rounds` of them; those of one row were plain rounds."""
        self.now.observe(rows, seconds, rounds)

    def observe_return(self, seconds: float) -> None:
        """A real pass of one row, right after a wider one, took `seconds`."""
        extra = min(seconds - self.alone(1), self.alone(1))
        self.fixed = max(0.0, self.fixed + RATE * (extra - self.fixed))

    def observe_steps(self, steps: float, seconds: float) -> None:
        """`steps` drafter steps took `seconds` together; ids read on the way count as parts of one."""
        self._steps += 1
        each = min(seconds / steps, CLAMP * self.step) if self._steps > 1 else seconds / steps
        self.step += max(RATE, 1 / (self._steps + 1)) * (each - self.step)

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
        passes = {
            str(threads): {str(n): s * times.level for n, s in sorted(times.shape.items())}
            for threads, times in self._by_threads.items()
        }
        return {"passes": passes, "step": self.step, "fixed": self.fixed}

    @classmethod
    def from_dict(cls, data: Mapping) -> CostModel:
        """SettingsError or KeyError/ValueError/TypeError/AttributeError for what `as_dict` did not write."""
        tables = {int(t): {int(n): float(s) for n, s in table.items()} for t, table in data["passes"].items()}
        seconds = [s for table in tables.values() for s in table.values()]
        widths = [n for table in tables.values() for n in table]
        if not all(tables.values()) or min(widths) < 1 or min(tables) < 0 or not all(0 < s < _LONG for s in seconds):
            raise ValueError("passes that take no time, or for ever")
        if not (0 <= float(data["step"]) < _LONG and 0 <= float(data["fixed"]) < _LONG):
            raise ValueError("steps that take no time, or for ever")
        found = cls(tables[0], float(data["step"]), float(data["fixed"]))
        found._by_threads = {threads: PassTimes(table) for threads, table in tables.items()}
        found.keep()
        return found


# First those that show what a row adds, should there be no time for more. 7 and 9: kernels take four or eight rows at
# once, and leftovers one by one.
WIDTHS = (1, 4, 2, 8, 3, 6, 5, 7, 9, 12)
# Of each, how many times at least, and at most while fewer than two agree: a median of three survives one interruption.
_REPEATS, _TRIES = 3, 6
_LONG = 1e6  # seconds; false for NaN, too
_AGREE = 1.2  # ratio of two times that say the same: processors change their clock by as much


def measure_costs(target: LanguageModel, drafter: DraftModel | None, budget: float) -> CostModel:
    """C(n) for as many widths as `budget` (seconds) allows, and D. Empties both caches.

    A large model whose single pass uses much of the budget keeps that one figure; real rounds fill in the rest. Nothing
    is worth storing if others used the processors meanwhile.
    """
    contention, found = Contention(), {}
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
    if contention.quiet_since():
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
