"""What a round costs on this machine: C(n), the seconds of a target pass over n rows, and D, those of a draft step.

C is a staircase that differs by model, machine and number of threads, so it is measured: at load where that is quick,
and by every real round. Its shape (by n) and its level (all n alike: a longer context, a busier machine) are tracked
apart. Figures that only the load measured are doubted where a wider pass was quicker, or two that share their rows
are; those of real rounds are believed: kernels that take four or eight rows at once do leftovers one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np

from omnidraft.errors import SettingsError

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
