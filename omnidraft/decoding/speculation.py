"""The guessing half of a round: who proposes (the drafter, a lookup, nobody), and what both learn from the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from omnidraft.decoding.drafting import Drafting
from omnidraft.decoding.length import PLAIN, LengthPolicy
from omnidraft.decoding.lookup import NO_MATCH, SuffixLookup
from omnidraft.decoding.strategy import Strategy
from omnidraft.decoding.verify import Verdict
from omnidraft.vocab import Proposal


class Guess(NamedTuple):
    """What a round sends to verification, and what it took. drafted counts pieces drawn now; times in seconds."""

    proposals: list[Proposal]
    pieces: list[int]
    drafted: int
    draft: float
    translate: float


NONE: list = []
NOTHING = Guess([], [], 0, 0.0, 0.0)


class Speculation:
    """Everything a speculative answer needs beyond the target.

    drafting: the drafter's state, None to propose lookups alone; lookup: earlier texts to copy from, None for none.
    """

    def __init__(
        self,
        drafting: Drafting | None,
        policy: LengthPolicy,
        verification: str = "coupled",
        lookup: SuffixLookup | None = None,
    ) -> None:
        self.drafting = drafting
        self.policy = policy
        self.verification = verification
        self.lookup = lookup
        self._unsaid: list[Proposal] = []  # of a draft that was not proposed
        self._uncopied: int | None = None  # what a lookup that was not proposed says comes next

    def guess(self, strategy: Strategy, position: int, room: int) -> Guess:
        """Proposals behind the newest token, at most `room`; `position` is the answer position they begin at."""
        drafting = self.drafting
        carried = drafting is not None and drafting.holds_pieces
        if not (carried or (self.lookup is not None and self.lookup.passages)) and self.policy.is_plain():
            return NOTHING
        start = perf_counter()
        drafted = 0
        if room > 0:
            copied = NONE if carried else self._look_up(strategy, room)
            if copied is None:
                return NOTHING
            if copied:
                return Guess(copied, [], 0, 0.0, perf_counter() - start)
            if drafting is not None:
                drafted = drafting.draft(self.policy, strategy.picker, position)
        after = perf_counter()
        pieces = drafting.pieces if drafting else []
        proposals = self._translate(strategy, pieces)[: max(room, 0)]
        if drafted and strategy.splits and not self.policy.worthwhile(pieces):
            self._unsaid, proposals, pieces = proposals, [], []
        return Guess(proposals, pieces, drafted, after - start, perf_counter() - after)

    def _look_up(self, strategy: Strategy, room: int) -> list[Proposal] | None:
        """Copies of earlier text; [] if the drafter is to draft, None if nobody is to propose."""
        behind = self.drafting.behind if self.drafting else 0
        match = NO_MATCH
        if self.lookup is not None and strategy.splits:
            match = self.lookup.propose(min(room, self.policy.longest))
        length = self.policy.begin(behind, match)
        if length <= 0 and match.ids:
            self._uncopied = match.ids[0]
        if length == PLAIN:
            return None
        return [Proposal(t, "lookup", 0, 0) for t in match.ids[:length]]

    def _translate(self, strategy: Strategy, pieces: list[int]) -> list[Proposal]:
        if not pieces or self.drafting is None:
            return []
        proposals = self.drafting.translator.segment(pieces)
        if strategy.splits:
            return proposals
        cut = next((i for i, p in enumerate(proposals) if p.origin == "split"), len(proposals))
        return proposals[:cut]

    def settle(self, verdict: Verdict, proposals: Sequence[Proposal]) -> None:
        """The target has spoken."""
        if self._uncopied is not None:
            self.policy.compared(verdict.emitted[0].id == self._uncopied)
            self._uncopied = None
        if self._unsaid:
            self.policy.withheld(self._unsaid, verdict.emitted[0].id)
            self._unsaid = []
        if self.drafting is not None:
            self.drafting.settle(verdict, proposals)
        if self.lookup is not None:
            for emission in verdict.emitted:
                self.lookup.append(emission.id)

    def finish(self) -> None:
        """The answer has ended, however it did."""
        self.policy.finish()
