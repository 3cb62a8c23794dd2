"""From a user's draft settings to the policy that follows them; the paper's draft length, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from omnidraft.decoding.chances import Chances
from omnidraft.decoding.decision import Decision
from omnidraft.decoding.events import Round
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import FixedLength, LengthPolicy
from omnidraft.decoding.lookup import Match
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Proposal, Translator


def make_policy(settings: DraftSettings, knowledge: Knowledge | None, translator: Translator | None) -> LengthPolicy:
    """`knowledge` is needed for every mode but "fixed"; without a translator only lookups can be proposed."""
    if settings.mode == "fixed" or knowledge is None:
        return FixedLength(settings.length)
    if settings.mode == "gamma" and translator is not None:
        return GammaLength(knowledge, translator, settings.max_length, settings.gamma)
    return Decision(knowledge, None if settings.mode == "lookup" else translator, settings.max_length)


class GammaLength(FixedLength):
    """The paper's rule (Section 3.4): stop once 1 - prod P(accept) > gamma. Costs play no part, nor do lookups."""

    def __init__(self, knowledge: Knowledge, translator: Translator, longest: int, gamma: float) -> None:
        super().__init__(longest)
        self._gamma = gamma
        self._chances = Chances(translator, knowledge.head, knowledge.rates, knowledge.offset)
        self.drew = self._chances.drew  # type: ignore[method-assign]

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        self._chances.begin(carried)
        return 0

    def more(self, pieces: Sequence[int]) -> bool:
        chances = self._chances.of(self._chances.segment(pieces)) if pieces else ()
        return len(pieces) < self.longest and 1.0 - prod(chances) <= self._gamma

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        self._chances.learn(proposals, done.tested, done.accepted, done.drafted)

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        self._chances.learn(proposals, done.tested, done.accepted, done.drafted)
