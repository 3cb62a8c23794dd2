"""The paper's draft length, for comparison with the one that goes by time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.guard import Guard
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.vocab import Translator


class GammaLength(AdaptiveLength):
    """The paper's rule (Section 3.4): stop once 1 - prod P(accept) > gamma. Costs play no part, nor do lookups."""

    def __init__(self, knowledge: Knowledge, translator: Translator, longest: int, gamma: float) -> None:
        super().__init__(knowledge, translator, longest)
        self._guard = Guard()  # drafts by its rule alone: what is measured here has no say, and decides nothing later
        self._gamma = gamma

    @property
    def state(self) -> str:
        return ""

    def is_plain(self) -> bool:
        return False

    def begin(self, behind: int, match: Match) -> int:
        return super().begin(behind, NO_MATCH)

    def more(self, pieces: Sequence[int]) -> bool:
        if len(pieces) >= self.longest:
            return False
        return not pieces or 1.0 - prod(self._drafts().chances(pieces)) <= self._gamma

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        return True
