"""The guessing half of a round: who proposes (a grammar, the drafter, a lookup, nobody), and what they learn of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.drafting import PLAIN, Drafting, LengthPolicy
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, SuffixLookup
from omnidraft.decoding.pick import CoupledPicker, GreedyPicker, Picker, SamplingPicker
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.verify import ExpansionTree, Verdict, verify_by_equality, verify_by_rejection
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import Proposal, Translator

# Which picker belongs to which verification, and what either needs to remember.


class Strategy(Protocol):
    """A way to draft and verify that belong together."""

    splits: bool
    """Whether a piece may be proposed as several target tokens (only equality can accept those)."""

    @property
    def picker(self) -> Picker: ...

    def verify(
        self, rows: np.ndarray, proposals: Sequence[Proposal], pieces: Sequence[int], recent: list[int], position: int
    ) -> Verdict: ...


class Equality:
    """T = 0 and `coupled`: keep what the target would have drawn anyway."""

    splits = True

    def __init__(self, sampler: Sampler, picker: Picker, ends: Callable[[int], bool]) -> None:
        self.picker = picker
        self._sampler = sampler
        self._ends = ends

    def verify(self, rows, proposals, pieces, recent, position):
        ids = [p.target_id for p in proposals]
        return verify_by_equality(rows, ids, self._sampler, recent, position, self._ends)


class Drawn:
    """`rejection`: pieces are drawn from a known q, by which proposals are tested.

    test: (rows, proposals, pieces, q, recent) -> verdict.
    """

    splits = False

    def __init__(self, picker: SamplingPicker, test: Callable[..., Verdict]) -> None:
        self.picker = picker
        self._test = test

    def verify(self, rows, proposals, pieces, recent, position):
        verdict = self._test(rows, proposals, pieces, self.picker.q, recent)
        self.picker.carry(verdict.carried, len(pieces))
        return verdict


def choose_strategy(
    verification: str,
    sampling: SamplingSettings,
    sampler: Sampler,
    translator: Translator,
    longest: int,
    ends: Callable[[int], bool],
) -> Strategy:
    """The strategy for one answer; at T = 0 every verification is equality."""
    if sampler.greedy:
        return Equality(sampler, GreedyPicker(), ends)
    if verification == "coupled":
        return Equality(sampler, CoupledPicker(translator, sampler.seed, sampling), ends)
    pair = translator.pair
    rng = np.random.Generator(np.random.PCG64(sampler.seed))
    picker = SamplingPicker(rng, sampling.temperature, pair.drafter.size, longest)
    return Drawn(picker, partial(verify_by_rejection, tree=tree_of(pair), sampler=sampler, rng=rng, ends=ends))


_trees: dict[int, tuple[object, ExpansionTree]] = {}


def tree_of(pair) -> ExpansionTree:
    """The pair's expansion tree; sorting 128k expansions takes a moment, so the last one is kept."""
    held = _trees.get(id(pair))
    if held is None or held[0] is not pair:
        _trees.clear()
        held = _trees[id(pair)] = (pair, ExpansionTree(pair.expansions))
    return held[1]


class Guess(NamedTuple):
    """What a round sends to verification, and what it took. drafted counts pieces drawn now; times in seconds."""

    proposals: list[Proposal]
    pieces: list[int]
    drafted: int
    draft: float
    translate: float


NOTHING = Guess([], [], 0, 0.0, 0.0)


class Speculation:
    """Everything a speculative answer needs beyond the target.

    drafting: the drafter's state, None to draft nothing; lookup: earlier texts to copy from, None for none; constraint:
    what the answer must follow, where it leaves no choice is proposed first.
    """

    def __init__(
        self,
        drafting: Drafting | None,
        policy: LengthPolicy,
        verification: str = "coupled",
        lookup: SuffixLookup | None = None,
        constraint: Constraint | None = None,
    ) -> None:
        self.drafting = drafting
        self.policy = policy
        self.verification = verification
        self.lookup = lookup
        self.constraint = constraint

    def guess(self, strategy: Strategy, position: int, room: int) -> Guess:
        """Proposals behind the newest token, at most `room`; `position` is the answer position they begin at."""
        start = perf_counter()
        if self.constraint is not None and (forced := self.constraint.forced()[: max(room, 0)]):
            return self._behind_forced(forced, strategy, position, room, start)
        drafting = self.drafting
        carried = len(drafting.pieces) if drafting is not None and drafting.holds_pieces else 0
        if self.policy.rests and not carried and (self.lookup is None or self.lookup.passages is None):
            return NOTHING
        drafted = 0
        if room > 0:
            begun, copied = self._begin(strategy, room, carried)
            if copied:
                return Guess(copied, [], 0, 0.0, perf_counter() - start)
            if begun != PLAIN and drafting is not None:
                drafted = drafting.draft(self.policy, strategy.picker, position, self.constraint)
            elif not carried:
                return NOTHING
        after = perf_counter()
        pieces = drafting.pieces if drafting else []
        proposals = self._translate(strategy, pieces)[: max(room, 0)]
        if drafted and strategy.splits and not self.policy.worthwhile(pieces):
            proposals, pieces = [], []
        return Guess(proposals, pieces, drafted, after - start, perf_counter() - after)

    def _behind_forced(self, forced: list[int], strategy: Strategy, position: int, room: int, start: float) -> Guess:
        """What the grammar forces, and behind it what the drafter says, if it is to draft in this round."""
        drafting, policy = self.drafting, self.policy
        proposals = [Proposal(token, "forced", 0, 0) for token in forced]
        if drafting is None or policy.rests or len(forced) >= room or drafting.ends(forced[-1]):
            return Guess(proposals, [], 0, 0.0, perf_counter() - start)
        if policy.begin(drafting.behind, NO_MATCH) == PLAIN:
            return Guess(proposals, [], 0, 0.0, perf_counter() - start)
        after = perf_counter()
        proposals = drafting.expect(forced)
        drafted = drafting.draft(policy, strategy.picker, position + len(forced), self.constraint)
        done = perf_counter()
        pieces = drafting.drafted
        if not drafted or policy.worthwhile(pieces):
            first = len(drafting.pieces) - len(pieces)
            behind = self._translate(strategy, pieces)[: room - len(forced)]
            proposals += [p._replace(start=p.start + first) for p in behind]
        return Guess(proposals, drafting.pieces, drafted, done - after, after - start + perf_counter() - done)

    def _begin(self, strategy: Strategy, room: int, carried: int) -> tuple[int, list[Proposal]]:
        """What the policy says of this round, and copies of earlier text where it wants them."""
        match = NO_MATCH
        if self.lookup is not None and strategy.splits and not carried:
            match = self.lookup.propose(min(room, self.policy.longest))
        begun = self.policy.begin(self.drafting.behind if self.drafting else 0, match, carried)
        return begun, [Proposal(t, "lookup", 0, 0) for t in match.ids[: max(begun, 0)]]

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
        if self.drafting is not None:
            self.drafting.settle(verdict, proposals)
        if self.lookup is not None:
            self.lookup.extend(emission.id for emission in verdict.emitted)

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        """The round has ended; `proposals` is what was sent to verification, `said` the first token that stands."""
        if not done.forced:
            self.policy.observe(done, proposals, said)
        elif done.drafted:
            self.policy.observe_behind(done.behind_forced, proposals[done.forced :])

    def finish(self) -> None:
        """The answer has ended, however it did."""
        self.policy.finish()
