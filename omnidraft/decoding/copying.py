"""How far copies of earlier text can be trusted, by how long the passages agree before them.

Where a passage stands matters, too: an answer that repeats itself goes on doing so, while what agrees with another
text soon differs; and what several texts go on with alike is the wording of their kind (arXiv 2411.04975).

Comparing a copy with what the target says costs nothing, so these rates are learned in every round with a match,
proposed or not, and begin low: a wide pass is paid for only after copies were seen to be right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from omnidraft.decoding.acceptance import Average

_BOUNDS = (4, 5, 7, 10, 16)  # match lengths below 4, of 4, 5-6, 7-9, 10-15, and longer
_PRIOR = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
_KINDS = 3  # another text's, the answer's own, and what several passages agree on


class CopyRates:
    """P(the next copied token is right | the last `matched` tokens agree, with the answer itself or another text)."""

    def __init__(self, averages: Sequence[Average] | None = None) -> None:
        self._averages = list(averages) if averages else [Average(value) for value in _PRIOR * _KINDS]

    def chance(self, matched: int, *, own: bool, agreed: bool = False) -> float:
        """own: the passage stands in the answer itself; agreed: several passages say so and none otherwise."""
        return self._average(matched, own, agreed).value

    def add(self, matched: int, right: bool, *, own: bool, agreed: bool = False) -> None:
        self._average(matched, own, agreed).add(float(right))

    def _average(self, matched: int, own: bool, agreed: bool) -> Average:
        kind = 2 if agreed else int(own)
        return self._averages[bisect_right(_BOUNDS, matched) + kind * len(_PRIOR)]

    def local(self) -> CopyRates:
        """Where one answer begins."""
        return CopyRates([average.local() for average in self._averages])

    def as_list(self) -> list[list[float]]:
        return [[average.value, average.weight] for average in self._averages]

    @classmethod
    def from_list(cls, data: Sequence[Sequence[float]]) -> CopyRates:
        """ValueError or TypeError for what `as_list` did not write."""
        if len(data) != _KINDS * len(_PRIOR):
            raise ValueError("rates of copies by another division")
        return cls([Average(float(value), float(weight)) for value, weight in data])
