"""How fast an answer would have been decoded plainly, from its own plain rounds.

Every answer has plain rounds (decoding/events.py says what they are); nothing is measured for the comparison alone.
Both sides are taken from the same answer wherever it has enough of them: what else a machine does changes a pass's
time by more than drafting does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, median, stdev

from omnidraft.decoding.events import Round

ENOUGH = 8  # plain rounds before their mean is worth showing
_KEPT = 40  # of earlier answers, for one with too few of its own
_MINUTES = 3.0  # and no older than this: other programs come and go
_STALL = 3.0  # times the median, what a longer round is counted as: it was interrupted, plain or drafted alike


@dataclass(frozen=True, slots=True)
class PlainSpeed:
    """Tokens per second an answer would have had plainly; error: half its 95% interval, relative to it."""

    speed: float
    error: float


@dataclass(slots=True)
class RoundTimes:
    """Wall times of one answer's rounds, in seconds, and the tokens they made.

    first: of the first round, None before it. plain: rounds as plain decoding has them. turned: plain rounds behind a
    wider pass. drafted: all others. tokens: of all rounds.
    """

    first: float | None = None
    plain: list[float] = field(default_factory=list)
    turned: list[float] = field(default_factory=list)
    drafted: list[float] = field(default_factory=list)
    tokens: int = 0

    def take(self, event: Round) -> None:
        self.tokens += event.emitted
        seconds = event.draft + event.translate + event.verify + event.other
        if event.plain:
            self.plain.append(seconds)
        elif event.drafted or event.proposed:
            self.drafted.append(seconds)
        elif self.first is None:
            self.first = seconds
        else:
            self.turned.append(seconds)

    def speedup(self, earlier: Sequence[float] = ()) -> float | None:
        """The time plain decoding would have taken, over the time it took.

        earlier: plain rounds of the answers before, seconds. None if nothing was drafted, or too little is known. Never
        more than the tokens of a pass: plain rounds that say so come from a slower moment of the machine.
        """
        plain = self._compared(earlier)
        if not self.drafted or len(plain) < ENOUGH:
            return None
        first = [] if self.first is None else [self.first]
        took = sum(first) + sum(_steady(self.plain)) + sum(_steady(self.turned, plain)) + sum(_steady(self.drafted))
        instead = sum(first) + (self.tokens - len(first)) * fmean(_steady(plain))
        passes = len(first) + len(self.plain) + len(self.turned) + len(self.drafted)
        return min(instead / took, self.tokens / passes) if took > 0 else None

    def error(self, earlier: Sequence[float] = ()) -> float:
        """Half the 95% interval of the mean plain round that `speedup` compares with, relative to it."""
        plain = _steady(self._compared(earlier))
        return 1.96 * stdev(plain) / sqrt(len(plain)) / fmean(plain) if len(plain) > 1 else 1.0

    def _compared(self, earlier: Sequence[float]) -> Sequence[float]:
        return self.plain if len(self.plain) >= ENOUGH else [*earlier, *self.plain]


def _steady(times: Sequence[float], usual: Sequence[float] = ()) -> list[float]:
    """The times, stalls cut: by what is `usual`, else by each other."""
    longest = _STALL * median(usual or times) if times else 0.0
    return [min(t, longest) for t in times]


class PlainRounds:
    """The latest plain rounds of each target, of the last minutes. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, list[tuple[float, float]]] = {}  # when, and how long

    def add(self, target: str, seconds: Sequence[float]) -> None:
        with self._lock:
            now = time.monotonic()
            self._seen[target] = [*self._seen.get(target, ()), *((now, took) for took in seconds)][-_KEPT:]

    def of(self, target: str) -> list[float]:
        with self._lock:
            since = time.monotonic() - 60 * _MINUTES
            return [took for when, took in self._seen.get(target, ()) if when >= since]
