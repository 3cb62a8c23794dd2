"""The typed events an answer is made of.

`decode` (loop.py) yields `Prefill` while the prompt is read, then `Token`s with one `Round` after the
tokens of each target pass, and one `Finished` at the end. Consumers (CLI, pages, storage, learning) live
off these alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, get_args

import numpy as np

from omnidraft.decoding.topk import Scores

Origin = Literal["target", "direct", "ngram", "split", "lookup", "forced"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
_SUMS = ("drafted", "proposed", "tested", "accepted", "copied", "forced", "draft", "translate", "verify", "other")
FinishReason = Literal["stop", "stop_string", "length", "context", "cancelled"]
CUT = ("length", "context", "cancelled")  # ends that are not the answer's own


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress through the prompt. `reused` tokens were already in the KV cache, `done` of `total` are now, and
    `picture`: one is read next, which takes its time. scored: ids of the prompt with their log probabilities, in order,
    where they were asked for; the first has none."""

    done: int
    total: int
    reused: int
    picture: bool = False
    scored: Sequence[tuple[int, Scores | None]] = ()


class Captured(Protocol):
    """What the target thought at a position; counted (`Candidates`) or counted when it is read (record.py)."""

    @property
    def ids(self) -> np.ndarray: ...

    @property
    def logprobs(self) -> np.ndarray: ...

    @property
    def rest(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Token:
    """One verified token.

    data: the token's own bytes; text: the text that became showable with it (whole characters only, behind
    a held-back stop string); scores: log probabilities, where they were asked for.
    """

    id: int
    data: bytes
    text: str
    origin: Origin
    position: int
    candidates: Captured | None = None
    scores: Scores | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One target pass. Times in seconds; `other` is what is left of the round's wall time.

    copied: how many of the proposals were copies of earlier text; a round proposes copies or drafts, never both.
    forced: how many, the first ones, a grammar left no choice about. plain: a round as plain decoding has them: nothing
    drafted or proposed, not the answer's first, and not behind a wider pass, which makes the next one dearer. What
    speaks of plain rounds means these. threads: see `Statistics`.
    """

    drafted: int
    proposed: int
    tested: int
    accepted: int
    emitted: int
    draft: float
    translate: float
    verify: float
    other: float
    copied: int = 0
    threads: tuple[int, int] | None = None
    plain: bool = False
    forced: int = 0

    @property
    def behind_forced(self) -> Round:
        """The same round without its forced proposals and what became of them."""
        kept = min(self.accepted, self.forced)
        return replace(
            self,
            proposed=self.proposed - self.forced,
            tested=max(0, self.tested - self.forced),
            accepted=self.accepted - kept,
            emitted=self.emitted - kept,
            forced=0,
        )


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader should be told in a sentence (turns dropped, drafting off and why)."""

    text: str


@dataclass(slots=True)
class Statistics:
    """Sums over one answer; rates are derived when shown (design: Terms). Times in seconds.

    copied, copied_tested, copied_accepted: the part of `proposed`, `tested` and `accepted` that the drafter had no
    share in, since it was copied from earlier text; forced, forced_tested, forced_accepted: likewise of what a grammar
    left no choice about. plain, plain_seconds: plain rounds, see `Round`.
    threads: processor threads of the last pass, and those there are; None where the target does not say.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    target_passes: int = 0
    rounds: int = 0
    drafted: int = 0
    proposed: int = 0
    tested: int = 0
    accepted: int = 0
    copied: int = 0
    copied_tested: int = 0
    copied_accepted: int = 0
    forced: int = 0
    forced_tested: int = 0
    forced_accepted: int = 0
    plain: int = 0
    plain_seconds: float = 0.0
    origins: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ORIGINS, 0))
    prefill: float = 0.0
    draft: float = 0.0
    translate: float = 0.0
    verify: float = 0.0
    other: float = 0.0
    threads: tuple[int, int] | None = None

    @property
    def decode_seconds(self) -> float:
        return self.draft + self.translate + self.verify + self.other

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / proposed, the paper's; None while nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else None

    @property
    def by_drafter(self) -> tuple[int, int, int]:
        """(proposed, tested, accepted) of what the drafter said, copies and forced tokens left out."""
        return (
            self.proposed - self.copied - self.forced,
            self.tested - self.copied_tested - self.forced_tested,
            self.accepted - self.copied_accepted - self.forced_accepted,
        )

    @property
    def drafter_acceptance(self) -> float | None:
        """accepted / proposed of what the drafter said; None while it proposed nothing."""
        proposed, _, accepted = self.by_drafter
        return accepted / proposed if proposed else None

    def count(self, done: Round) -> None:
        """Add a round, but for its tokens."""
        self.target_passes += 1
        self.threads = done.threads or self.threads
        if done.plain:  # as most are where passes are short, and the rest of it would cost as much again
            self.plain += 1
            self.plain_seconds += done.verify + done.other
            self.verify += done.verify
            self.other += done.other
            return
        self.rounds += done.drafted > 0 or done.proposed > 0
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(done, name))
        if done.copied:
            self.copied_tested += done.tested
            self.copied_accepted += done.accepted
        self.forced_tested += min(done.tested, done.forced)
        self.forced_accepted += min(done.accepted, done.forced)

    @property
    def tokens_per_pass(self) -> float | None:
        """Generated tokens per target pass. Plain gives 1: the prefill stops short of the prompt's last token."""
        return self.tokens / self.target_passes if self.target_passes else None

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed: tokens over decode time, prefill excluded."""
        return self.tokens / self.decode_seconds if self.decode_seconds else None


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer's end. text: what was still held back (an unfinished character, the beginning of a stop string)."""

    reason: FinishReason
    statistics: Statistics
    text: str = ""
    seed: int = 0
    draft_disabled_reason: str | None = None


Event = Prefill | Token | Round | Notice | Finished
