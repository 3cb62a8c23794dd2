"""Running counters of an answer, built from its events, and how fast it would have been written without drafting.

That is known from its own plain rounds (decoding/events.py says what they are); nothing is measured for the comparison
alone. Both sides are taken from the same answer wherever it has enough of them: what else a machine does changes a
pass's time by more than drafting does. Knows no page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from statistics import fmean, median, stdev
from typing import Any

from omnidraft.decoding.events import Event, Finished, Notice, Prefill, Round, Statistics, Token

_NO_SUMS = ("prompt_tokens", "reused_tokens", "origins", "threads")
ENOUGH = 8  # plain rounds before their mean is worth showing
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

    def speedup(self, recent: Sequence[float] = ()) -> float | None:
        """The time plain decoding would have taken, over the time it took.

        recent: plain rounds of this answer and those before, seconds. None if nothing was drafted, or too little is
        known. Never more than the tokens of a pass: plain rounds that say so come from a slower moment of the machine.
        """
        plain = self._compared(recent)
        if not self.drafted or len(plain) < ENOUGH:
            return None
        first = [] if self.first is None else [self.first]
        took = sum(first) + sum(_steady(self.plain)) + sum(_steady(self.turned, plain)) + sum(_steady(self.drafted))
        instead = sum(first) + (self.tokens - len(first)) * fmean(_steady(plain))
        passes = len(first) + len(self.plain) + len(self.turned) + len(self.drafted)
        return min(instead / took, self.tokens / passes) if took > 0 else None

    def error(self, recent: Sequence[float] = ()) -> float:
        """Half the 95% interval of the mean plain round that `speedup` compares with, relative to it."""
        plain = _steady(self._compared(recent))
        return 1.96 * stdev(plain) / sqrt(len(plain)) / fmean(plain) if len(plain) > 1 else 1.0

    def _compared(self, recent: Sequence[float]) -> Sequence[float]:
        return self.plain if len(self.plain) >= ENOUGH else recent


def _steady(times: Sequence[float], usual: Sequence[float] = ()) -> list[float]:
    """The times, stalls cut: by what is `usual`, else by each other."""
    longest = _STALL * median(usual or times) if times else 0.0
    return [min(t, longest) for t in times]


@dataclass(slots=True)
class Live:
    """What the panel shows. phase: waiting, reading, writing, done. `statistics` runs along with the rounds."""

    phase: str = "waiting"
    prefill: Prefill | None = None
    statistics: Statistics = field(default_factory=Statistics)
    notices: list[str] = field(default_factory=list)
    pieces: list[tuple[str, str]] = field(default_factory=list)  # (text, origin) per token, for the origins view
    ids: list[int] = field(default_factory=list)  # of the tokens counted here
    acceptance: list[float] = field(default_factory=list)  # accepted / proposed, one value per 8 rounds that proposed
    finish_reason: str | None = None
    disabled_reason: str | None = None
    seed: int | None = None
    times: RoundTimes = field(default_factory=RoundTimes)
    settled_plain: PlainSpeed | None = None  # `plain` of an answer that is in the store
    _window: list[tuple[int, int]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What was written, as far as it is counted here."""
        return "".join(text for text, _ in self.pieces)

    @classmethod
    def stored(
        cls, statistics: Mapping[str, Any], disabled_reason: str | None, plain: PlainSpeed | None = None
    ) -> Live:
        """The counters of an answer that was written earlier, and its speed without drafting."""
        known = {f.name for f in fields(Statistics)}
        live = cls(phase="done", disabled_reason=disabled_reason, settled_plain=plain)
        live.statistics = Statistics(**{name: value for name, value in statistics.items() if name in known})
        return live

    def add_earlier(self, statistics: Mapping[str, Any]) -> None:
        """Count what was written of this answer before it was continued, as if it had never stopped."""
        before, now = Live.stored(statistics, None).statistics, self.statistics
        for name in [one.name for one in fields(Statistics) if one.name not in _NO_SUMS]:
            setattr(now, name, getattr(before, name) + getattr(now, name))
        now.origins = {name: before.origins.get(name, 0) + count for name, count in now.origins.items()}
        # The continued prompt ended with the answer's own tokens; the gauge counts them once.
        now.prompt_tokens = max(now.prompt_tokens - before.tokens, 0)
        now.reused_tokens = min(before.reused_tokens, now.prompt_tokens)

    def plain(self, earlier: Sequence[float] = ()) -> PlainSpeed | None:
        """The speed the answer would have had without drafting; None if nothing was drafted or nobody knows.

        earlier: plain rounds of the answers before, seconds.
        """
        if self.settled_plain is not None:
            return self.settled_plain
        speedup, speed = self.times.speedup(earlier), self.statistics.tokens_per_second
        return PlainSpeed(speed / speedup, self.times.error(earlier)) if speedup and speed else None

    def take(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, Token):
            self.phase = "writing"
            self.statistics.tokens += 1
            self.statistics.origins[event.origin] += 1
            self.pieces.append((event.text, event.origin))
            self.ids.append(event.id)
        elif isinstance(event, Round):
            self._round(event)
        elif isinstance(event, Prefill):
            self.phase = "reading"
            self.prefill = event
        elif isinstance(event, Notice):
            self.notices.append(event.text)
        elif isinstance(event, Finished):
            self.phase = "done"
            self.statistics = event.statistics
            self.finish_reason, self.seed = event.reason, event.seed
            self.disabled_reason = event.draft_disabled_reason
            if event.text:
                self.pieces.append((event.text, "target"))

    def _round(self, event: Round) -> None:
        self.times.take(event)
        self.statistics.count(event)
        drafted = event.behind_forced
        if drafted.proposed > drafted.copied:
            self._window.append((drafted.accepted, drafted.proposed))
            if len(self._window) == 8:
                self.acceptance.append(sum(a for a, _ in self._window) / sum(p for _, p in self._window))
                self._window.clear()
