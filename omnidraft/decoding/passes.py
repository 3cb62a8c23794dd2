"""What passes take here: C(n), the seconds of a target's pass over n rows.

What the load measured is corrected by what real rounds took, and its level (all rows alike: a longer context, a busier
machine) by plain rounds. Every figure is a median, since interruptions only add time. Knows nothing of what is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import inf

import numpy as np

from omnidraft.errors import SettingsError
from omnidraft.processes.trying import Usual

# What one more row adds to a pass before any was measured: between flat (0.05) and steep (0.9) kernels, near enough to
# flat that it is tried.
HOPE = 0.3
# Of a pass: by so much two alike differ anyway.
NOISE = 0.05
# Ratio of plain times beyond which the machine does something else.
CHANGED = 1.2


class PassTimes:
    """C(n) with one number of threads. measured: seconds by rows, one of them 1; a wider pass that was quicker is
    right, until real rounds say otherwise."""

    def __init__(self, measured: Mapping[int, float]) -> None:
        """SettingsError for times that are none."""
        if 1 not in measured or any(n < 1 or not 0 < s < inf for n, s in measured.items()):
            raise SettingsError("A pace needs a positive time for a pass of one row, and for every other width.")
        widths = sorted(measured, reverse=True)
        self.measured = dict(sorted(zip(widths, accumulate((measured[n] for n in widths), min), strict=True)))
        self._plain = Usual(self.measured[1])
        self._found: dict[int, Usual] = {}  # by rows: seconds of real rounds over those of a plain one
        self._added: list[float] = []  # by rows: C(n) over C(1), less one

    @property
    def figures(self) -> dict[int, float]:
        """Seconds by rows, of those that were measured or used."""
        return {n: self.seconds(n) for n in sorted({*self.measured, *self._found.copy()})}

    @property
    def plain(self) -> float:
        """C(1)."""
        return self._plain.value

    def seconds(self, rows: int) -> float:
        return self.plain + self.added(rows)

    def added(self, rows: int) -> float:
        """C(rows) - C(1). Safe from other threads."""
        added = self._added
        if rows >= len(added):
            added = self._added = self._work_out(rows)
        return self._plain.value * added[rows]

    def is_used(self, rows: int) -> bool:
        """Whether a real round had so many rows, or more."""
        return max(self._found, default=0) >= rows

    def observe(self, rows: int, seconds: float) -> None:
        """A real pass of several rows took so long."""
        found, usual = seconds / self.plain, self._found.get(rows)
        if usual is None:
            usual = self._found[rows] = Usual(self.seconds(rows) / self.plain)
        before = usual.value, usual.settled
        usual.add(found)
        if before != (usual.value, usual.settled):
            self._added = []

    def observe_plain(self, seconds: Iterable[float]) -> bool:
        """Plain rounds took so long each. Returns whether the machine does something else now: then what real rounds
        said of several rows no longer holds."""
        before = self._plain.value
        self._plain.add(*seconds)
        if 1 / CHANGED < self._plain.value / before < CHANGED:
            return False
        self._found.clear()
        self._added = []
        return True

    def _work_out(self, least: int) -> list[float]:
        """What rows add, for `least` of them and more, was measured; how far that is right, real rounds of near widths
        tell."""
        found = self._rising()
        rows = np.arange(max(2 * least, 16, *found) + 1)
        added = _line(rows, self.measured) / self.measured[1] - 1 + NOISE
        if found:
            added *= np.interp(rows, list(found), [figure / added[n] for n, figure in found.items()])
        return [0.0, 0.0, *(added[2:] - NOISE).tolist()]

    def _rising(self) -> dict[int, float]:
        """What real rounds found that rows add, in order of rows: before it is settled no more than for wider ones."""
        found, least = {}, inf
        for rows, usual in sorted(self._found.copy().items(), reverse=True):
            figure = max(usual.value - 1, 0.0) + NOISE
            found[rows] = figure if usual.settled else min(figure, least)
            least = min(least, found[rows])
        return dict(reversed(found.items()))


def _line(rows: np.ndarray, figures: Mapping[int, float]) -> np.ndarray:
    """Through the nearest of `figures`, which are in order of rows and begin with one."""
    known = dict(figures) if len(figures) > 1 else {1: figures[1], 2: (1 + HOPE) * figures[1]}
    (before, low), (last, high) = list(known.items())[-2:]
    known[last + len(rows)] = high + (high - low) / (last - before) * len(rows)
    return np.interp(rows, list(known), list(known.values()))
