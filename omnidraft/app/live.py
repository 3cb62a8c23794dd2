"""Running counters of the answer being written, built from its events. Knows no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from omnidraft.app.plain_speed import PlainSpeed, RoundTimes
from omnidraft.decoding.events import Event, Finished, Notice, Prefill, Round, Statistics, Token

_SUMS = (
    "tokens", "target_passes", "rounds", "prefill", "drafted", "proposed", "tested", "accepted", "copied",
    "copied_tested", "copied_accepted", "forced", "forced_tested", "forced_accepted", "plain", "plain_seconds",
    "draft", "translate", "verify", "other",
)  # fmt: skip


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
        for name in _SUMS:
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
