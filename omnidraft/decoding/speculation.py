"""The guessing half of a round: who proposes (a grammar, the drafter, a lookup, nobody), and what they learn of it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.drafting import PLAIN, Drafting, LengthPolicy
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, SuffixLookup
from omnidraft.decoding.pick import Picker
from omnidraft.decoding.verify import Verdict
from omnidraft.vocab import Proposal


class Guess(NamedTuple):
    """What a round sends to verification, and what it took. drafted: pieces drawn; times in seconds."""

    proposals: list[Proposal]
    drafted: int
    draft: float
    translate: float


NOTHING = Guess([], 0, 0.0, 0.0)


class Speculation:
    """Everything a speculative answer needs beyond the target.

    drafting: the drafter's state, None to draft nothing; lookup: earlier texts to copy from, None for none; constraint:
    what the answer must follow, where it leaves no choice is proposed first.
    """

    def __init__(
        self,
        drafting: Drafting | None,
        policy: LengthPolicy,
        lookup: SuffixLookup | None = None,
        constraint: Constraint | None = None,
    ) -> None:
        self.drafting = drafting
        self.policy = policy
        self.lookup = lookup
        self.constraint = constraint

    def guess(self, picker: Picker, position: int, room: int) -> Guess:
        """Proposals behind the newest token, at most `room`; `position` is the answer position they begin at."""
        start = perf_counter()
        if self.constraint is not None and (forced := self.constraint.forced()[: max(room, 0)]):
            return self._behind_forced(forced, picker, position, room, start)
        drafting = self.drafting
        if room <= 0 or (self.policy.rests and (self.lookup is None or not self.lookup.finds)):
            return NOTHING
        begun, copied = self._begin(room)
        if copied:
            return Guess(copied, 0, 0.0, perf_counter() - start)
        if begun == PLAIN or drafting is None:
            return NOTHING
        drafted = drafting.draft(self.policy, picker, position, self.constraint)
        after = perf_counter()
        proposals = drafting.translator.segment(drafting.pieces)[:room]
        if drafted and not self.policy.worthwhile(drafting.pieces):
            proposals = []
        return Guess(proposals, drafted, after - start, perf_counter() - after)

    def _behind_forced(self, forced: list[int], picker: Picker, position: int, room: int, start: float) -> Guess:
        """What the grammar forces, and behind it what the drafter says, if it is to draft in this round."""
        drafting, policy = self.drafting, self.policy
        proposals = [Proposal(token, "forced", 0, 0) for token in forced]
        if drafting is None or policy.rests or len(forced) >= room or drafting.ends(forced[-1]):
            return Guess(proposals, 0, 0.0, perf_counter() - start)
        if policy.begin(drafting.behind, NO_MATCH) == PLAIN:
            return Guess(proposals, 0, 0.0, perf_counter() - start)
        after = perf_counter()
        proposals = drafting.expect(forced)
        drafted = drafting.draft(policy, picker, position + len(forced), self.constraint)
        done = perf_counter()
        pieces = drafting.drafted
        if not drafted or policy.worthwhile(pieces):
            first = len(drafting.pieces) - len(pieces)
            behind = drafting.translator.segment(pieces)[: room - len(forced)]
            proposals += [p._replace(start=p.start + first) for p in behind]
        return Guess(proposals, drafted, done - after, after - start + perf_counter() - done)

    def _begin(self, room: int) -> tuple[int, list[Proposal]]:
        """What the policy says of this round, and copies of earlier text where it wants them."""
        match = NO_MATCH
        if self.lookup is not None:
            match = self.lookup.propose(room)
        begun = self.policy.begin(self.drafting.behind if self.drafting else 0, match)
        return begun, [Proposal(t, "lookup", 0, 0) for t in match.ids[: max(begun, 0)]]

    def settle(self, verdict: Verdict, proposals: Sequence[Proposal]) -> None:
        """The target has spoken."""
        if self.drafting is not None:
            self.drafting.settle(verdict, proposals)
        if self.lookup is not None:
            self.lookup.extend(emission.id for emission in verdict.emitted)

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        """The round has ended; `proposals` is what was sent to verification, `said` the first token that stands."""
        if not done.forced:
            self.policy.observe(done, proposals, said)
        elif done.drafted:
            behind = proposals[done.forced :]
            first = behind[0].start if behind else 0  # pieces of what was forced are not the drafter's
            self.policy.observe_behind(done.behind_forced, [p._replace(start=p.start - first) for p in behind])

    def finish(self) -> None:
        """The answer has ended, however it did."""
        self.policy.finish()
