"""From counts per test answer to rates with intervals, gains and shares of a gap. Knows nothing of models.

Intervals are 95% bootstrap percentiles: seeds are drawn again, and within each its test answers, the same for all
conditions that are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
COLUMNS = ("proposed", "accepted", "tokens", "passes")
Counts = Sequence[np.ndarray]  # one (answers, 4) array per seed, columns as above


@dataclass(frozen=True, slots=True)
class Value:
    """A mean with its interval; NaN where it is not defined (a share of no gap)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 1.5 else 1
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def acceptance(sums: np.ndarray) -> np.ndarray:
    """accepted / proposed of sums over answers, (..., 4) -> (...)."""
    return sums[..., 1] / np.maximum(sums[..., 0], 1)


def per_pass(sums: np.ndarray) -> np.ndarray:
    return sums[..., 2] / np.maximum(sums[..., 3], 1)


def compare(conditions: Mapping[str, Counts], of: Callable[[Mapping[str, np.ndarray]], np.ndarray]) -> Value:
    """`of` the conditions' sums ({name: (..., 4)}), with an interval; all have the same seeds and answers."""
    arrays = {name: [np.asarray(c, float) for c in counts] for name, counts in conditions.items()}
    sizes = [len(counts) for counts in next(iter(arrays.values()))]
    point = of({name: np.concatenate(list(counts)).sum(0) for name, counts in arrays.items()})
    rng = np.random.default_rng(0)
    seeds = rng.integers(len(sizes), size=(RESAMPLES, len(sizes)))
    drawn = [[rng.integers(sizes[s], size=sizes[s]) for s in row] for row in seeds]
    sums = {
        name: np.stack(
            [sum(counts[s][i].sum(0) for s, i in zip(row, picks, strict=True))
             for row, picks in zip(seeds, drawn, strict=True)]
        )
        for name, counts in arrays.items()
    }  # fmt: skip
    found = of(sums)
    found = found[np.isfinite(found)]
    low, high = np.quantile(found, [0.025, 0.975]) if len(found) else (np.nan, np.nan)
    return Value(float(point), float(low), float(high))


def rate(counts: Counts) -> Value:
    return compare({"it": counts}, lambda s: acceptance(s["it"]))


def tokens_per_pass(counts: Counts) -> Value:
    return compare({"it": counts}, lambda s: per_pass(s["it"]))


def times(counts: Counts, base: Counts) -> Value:
    """Acceptance over `base`'s."""
    both = {"it": counts, "base": base}
    return compare(both, lambda s: acceptance(s["it"]) / np.maximum(acceptance(s["base"]), 1e-9))


def difference(counts: Counts, other: Counts) -> Value:
    """Acceptance minus `other`'s."""
    return compare({"it": counts, "other": other}, lambda s: acceptance(s["it"]) - acceptance(s["other"]))


def share(counts: Counts, low: Counts, high: Counts) -> Value:
    """How much of the way from `low`'s acceptance to `high`'s it has come, 1 being all of it."""

    def closed(s: Mapping[str, np.ndarray]) -> np.ndarray:
        gap = acceptance(s["high"]) - acceptance(s["low"])
        return (acceptance(s["it"]) - acceptance(s["low"])) / np.where(np.abs(gap) < 1e-6, np.nan, gap)

    return compare({"it": counts, "low": low, "high": high}, closed)
