"""From counts and times of single answers to figures with intervals. Knows nothing of models.

Intervals are 95% bootstrap percentiles: what was paired is drawn again in pairs, counts of several seeds first by seed,
then by answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

RESAMPLES = 2000
FEWEST = 3  # answers before their speedup has an interval
Counts = Sequence[Sequence[Sequence[int]]]  # a row an answer, seed by seed: proposed, accepted, tokens, passes, ...


@dataclass(frozen=True, slots=True)
class Value:
    """A figure with its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 1 else 2
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Timed(Protocol):
    """An answer as far as its speed goes: seconds of decoding, and the tokens they brought."""

    @property
    def decode(self) -> float: ...

    @property
    def tokens(self) -> int: ...


def speedup(plain: Sequence[Timed], found: Sequence[Timed]) -> Value:
    """Summed seconds a token of `plain` over those of `found`, answers to the same prompts side by side."""
    return ratio([(p.decode, p.tokens) for p in plain], [(f.decode, f.tokens) for f in found])


def ratio(plain: Sequence[tuple[float, int]], found: Sequence[tuple[float, int]]) -> Value:
    """The same of pairs (seconds, tokens)."""
    both = np.hstack([np.array(plain, float), np.array(found, float)])
    drawn = np.random.default_rng(0).integers(len(both), size=(RESAMPLES, len(both)))

    def of(sums: np.ndarray) -> np.ndarray:
        plain, plain_tokens, drafted, drafted_tokens = np.moveaxis(sums, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):  # of answers without a token nothing can be said
            return (plain / plain_tokens) / (drafted / drafted_tokens)

    return _value(of(both.sum(0)), of(both[drawn].sum(1)))


def interval(plain: Sequence[tuple[float, int]], found: Sequence[tuple[float, int]]) -> tuple[float, float] | None:
    """Where 95% of the ratios of answers drawn from these lie; None where they are too few to say."""
    if len(plain) < FEWEST:
        return None
    spread = ratio(plain, found)
    return (spread.low, spread.high) if np.isfinite(spread.low) else None


def each(plain: Sequence[Timed], found: Sequence[Timed]) -> list[float]:
    """Speedups answer by answer, of those that have something to count on both sides."""
    pairs = zip(plain, found, strict=True)
    return [(p.decode / p.tokens) / (f.decode / f.tokens) for p, f in pairs if p.tokens and f.tokens and f.decode]


def median(values: Sequence[float]) -> Value:
    """The median with its interval."""
    drawn = np.random.default_rng(0).choice(np.array(values), (RESAMPLES, len(values)))
    return _value(np.median(values), np.median(drawn, axis=1))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(low), float(high)


def rate(counts: Counts) -> Value:
    """accepted / proposed over all answers."""
    return _over(counts, lambda sums: sums[..., 1] / np.maximum(sums[..., 0], 1))


def tokens_per_pass(counts: Counts) -> Value:
    return _over(counts, lambda sums: sums[..., 2] / np.maximum(sums[..., 3], 1))


def _over(counts: Counts, of: Callable[[np.ndarray], np.ndarray]) -> Value:
    """`of` the sums over all answers, (..., 4) -> (...)."""
    arrays, rng = [np.asarray(one, float)[:, :4] for one in counts], np.random.default_rng(0)
    sums = np.zeros((RESAMPLES, 4))
    for turn, seeds in enumerate(rng.integers(len(arrays), size=(RESAMPLES, len(arrays)))):
        for seed in seeds:
            sums[turn] += arrays[seed][rng.integers(len(arrays[seed]), size=len(arrays[seed]))].sum(0)
    return _value(of(np.concatenate(arrays).sum(0)), of(sums))


def _value(point: np.ndarray | float, drawn: np.ndarray) -> Value:
    finite = drawn[np.isfinite(drawn)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return Value(float(point), float(low), float(high))
