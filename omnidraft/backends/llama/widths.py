"""Pass widths on cards and workers: a graph of another number of rows than the one before is built or sent anew.

Where that takes longer than computing a row too many, passes are filled up to a few widths, so that most find the graph
in place. Filling changes no row that was asked for. Knows times only, no models.
"""

from __future__ import annotations

from collections.abc import Callable

FEW = (1, 2, 3, 5, 9, 17)
_WIDE, _NARROWER = 5, 4  # widths that show what a change and what a row costs
_PASSES = 3  # of each


class Widths:
    """Fills passes up to `FEW` widths, `widest` at most, once `settle` found that it pays; changing, row: the seconds
    it found."""

    def __init__(self) -> None:
        self.filling, self.widest = False, 0
        self.changing = self.row = 0.0

    def settle(self, seconds_of: Callable[[int], float], widest: int) -> None:
        """Measure with a few passes: seconds_of(n) runs one of n rows and says what it took."""
        self.filling, self.widest = False, widest
        if widest < _WIDE:
            return
        seconds_of(_NARROWER)
        wide = [seconds_of(_WIDE) for _ in range(_PASSES)]
        narrower = [seconds_of(_NARROWER) for _ in range(_PASSES)]
        self.changing = max(0.0, (wide[0] - min(wide[1:]) + narrower[0] - min(narrower[1:])) / 2)
        self.row = max(0.0, min(wide) - min(narrower))
        self.filling = self.changing > self.row

    def missing(self, rows: int) -> int:
        """How many rows to add to a pass of `rows`."""
        if not self.filling or rows < 2:
            return 0
        return next((width - rows for width in FEW if rows <= width <= self.widest), 0)
