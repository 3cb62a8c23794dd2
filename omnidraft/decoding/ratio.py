"""How fast drafted rounds are over plain ones, with an interval, from rounds as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import fmean, median

STALL = 3.0  # times the median, what a longer round is counted as: it was interrupted
_FADING = 0.985  # per drafted round
_Z = 1.64  # 90%


@dataclass(slots=True)
class Ratio:
    """Drafted over plain speed as a ratio of sums, rho = sum(n c) / sum(s), fading; its error by linearisation:
    var(rho) = sum((n c - rho s)^2) / sum(s)^2 (Cochran 1977, 6.4). Begins as four rounds that were like plain ones."""

    gained: float = 4.0  # sum of n, in plain rounds
    took: float = 4.0  # sum of s / c
    squares: float = 1.0

    def add(self, tokens: int, took: float) -> None:
        rest = tokens - self.ratio * took
        self.gained = _FADING * self.gained + tokens
        self.took = _FADING * self.took + took
        self.squares = _FADING**2 * self.squares + rest * rest

    @property
    def ratio(self) -> float:
        return self.gained / self.took

    def interval(self) -> tuple[float, float]:
        width = exp(_Z * sqrt(self.squares) / self.gained)
        return self.ratio / width, self.ratio * width


def steady(times: Sequence[float]) -> float:
    """Their mean, interrupted rounds counted as `STALL` times the median."""
    longest = STALL * median(times)
    return fmean(min(t, longest) for t in times)
