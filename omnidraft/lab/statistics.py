"""Answers as numbers, and figures with intervals. Knows nothing of models.

A trace is what one answer's tokens and rounds came to, cut where it has fallen into a loop: small models do at
temperature 0, and a loop drafts itself. Intervals are 95% bootstrap percentiles: what was paired is drawn again in
pairs, counts of several seeds first by seed, then by answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

import numpy as np

from omnidraft.decoding.events import Event, Finished, Round, Statistics, Token

WINDOW = 64
LONGEST_CYCLE = 16


@dataclass(slots=True)
class Trace:
    """Rounds up to the point where the answer became degenerate, if it did. Times in seconds."""

    ids: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    statistics: Statistics = field(default_factory=Statistics)  # of the whole answer
    degenerate: bool = False

    @property
    def tokens(self) -> int:
        return sum(r.emitted for r in self.rounds)

    @property
    def passes(self) -> int:
        return len(self.rounds)

    @property
    def decode(self) -> float:
        return sum(r.draft + r.translate + r.verify + r.other for r in self.rounds)

    @property
    def proposed(self) -> int:
        return sum(r.proposed for r in self.rounds)

    @property
    def accepted(self) -> int:
        return sum(r.accepted for r in self.rounds)


def record(events: Iterable[Event]) -> Trace:
    """Run an answer to its end; cut it where it starts looping."""
    trace = Trace()
    for event in events:
        if isinstance(event, Token):
            trace.ids.append(event.id)
        elif isinstance(event, Round):
            trace.rounds.append(event)
        elif isinstance(event, Finished):
            trace.statistics = event.statistics
    return before_loop(trace)


def before_loop(trace: Trace) -> Trace:
    """Only whole rounds until where it starts looping, so that no method is paid for echoing itself."""
    cut = onset(trace.ids)
    if cut is not None:
        trace.degenerate = True
        before = accumulate((done.emitted for done in trace.rounds), initial=0)
        trace.rounds = [done for done, reached in zip(trace.rounds, before, strict=False) if reached < cut]
    return trace


def onset(ids: Sequence[int]) -> int | None:
    """Index from which `ids` only repeats itself, None if it does not.

    Degenerate: within the last 64 tokens at least half are a cycle of at most 16 tokens. The onset is where the cycle's
    second turn begins: the first turn was said for the first time.
    """
    longest = 0
    period = 0
    for candidate in range(1, LONGEST_CYCLE + 1):
        run = _run(ids, candidate)
        if run > longest:
            longest, period = run, candidate
    if longest < WINDOW // 2 or longest < 2 * period:
        return None
    return len(ids) - longest + period


def _run(ids: Sequence[int], period: int) -> int:
    """Length of the longest end of `ids` with this period."""
    n = len(ids)
    matched = 0
    while matched < n - period and ids[n - 1 - matched] == ids[n - 1 - matched - period]:
        matched += 1
    return matched + period if matched else 0


class Timed(Protocol):
    """An answer as far as its speed goes: seconds of decoding, and the tokens they brought."""

    @property
    def decode(self) -> float: ...

    @property
    def tokens(self) -> int: ...


class Counted(Timed, Protocol):
    """And as far as drafting goes."""

    @property
    def proposed(self) -> int: ...

    @property
    def accepted(self) -> int: ...

    @property
    def passes(self) -> int: ...


# Of several answers: ratios of sums, so that long answers count more than short ones; None where there is nothing.


def acceptance(answers: Sequence[Counted]) -> float | None:
    """accepted / proposed."""
    proposed = sum(one.proposed for one in answers)
    return sum(one.accepted for one in answers) / proposed if proposed else None


def per_pass(answers: Sequence[Counted]) -> float | None:
    """Tokens per target pass."""
    passes = sum(one.passes for one in answers)
    return sum(one.tokens for one in answers) / passes if passes else None


def per_second(answers: Sequence[Timed]) -> float | None:
    """Tokens per second of decoding."""
    decode = sum(one.decode for one in answers)
    return sum(one.tokens for one in answers) / decode if decode else None


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


def interval(plain: Sequence[Timed], found: Sequence[Timed]) -> tuple[float, float] | None:
    """Where 95% of the speedups of answers drawn from these lie; None where they are too few to say."""
    if len(plain) < FEWEST:
        return None
    spread = speedup(plain, found)
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
