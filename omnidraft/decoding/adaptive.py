"""Draft length by tokens per second: draft on only while it is expected to pay on this machine with this pair.

With R the long-run rate of tokens per second, another stretch of drafting pays iff for some longer draft
E[extra kept tokens] - R * (extra drafter steps * D + C(m' + 1) - C(m + 1)) > 0. All longer drafts are looked at,
because C is a staircase and a piece inside an n-gram earns nothing before its token closes. No draft at all is
allowed: then the answer is decoded plainly, and now and then, within a two-hundredth of the time, the drafter guesses in
silence: nothing is proposed, the guess is only compared with what the target says, which costs no wider pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidraft.decoding.acceptance import AcceptanceHead, Average, Rates
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.foresight import Foresight
from omnidraft.vocab import Proposal, Translator

_PROBE_SHARE = 0.005  # of plain decoding's time goes to finding out whether drafting would pay
_EARLY_SHARE, _EARLY_SAMPLES = 0.05, 12  # until so much is known of a new pair; a matter of few drafter steps
_PROBE_PIECES = 3  # drafted at most until the first proposal of a silent guess is complete
_HYSTERESIS = 0.02  # tokens a round must promise before drafting resumes
_MEMORY = 0.995  # of the long-run rate, per round
_READ_AHEAD = 0.15  # of a draft step: the cost of one more id when the drafter catches up in one pass
_AMORTISED = 24  # rounds over which catching up is written off


@dataclass(slots=True)
class Knowledge:
    """What is known of one drafter-target pair in one kind of sampling; lives as long as the pair and is stored.

    matches: acceptance of looked-up tokens by match length (short, medium, long).
    """

    cost: CostModel
    rates: Rates = field(default_factory=Rates)
    head: AcceptanceHead = field(default_factory=AcceptanceHead)
    matches: list[Average] = field(default_factory=lambda: [Average(0.3), Average(0.5), Average(0.7)])
    tokens: float = 0.0
    seconds: float = 0.0
    plain_seconds: float = 0.0  # plain decoding that silent guesses may still be charged to
    drafting: bool = True

    @property
    def rate(self) -> float:
        """R, tokens per second, never below plain decoding's."""
        plain = 1.0 / self.cost.pass_seconds(1)
        return max(plain, self.tokens / self.seconds) if self.seconds else plain

    def as_dict(self) -> dict:
        return {
            "cost": self.cost.as_dict(),
            "rates": self.rates.as_dict(),
            "head": self.head.as_dict(),
            "matches": [[m.value, m.weight] for m in self.matches],
            "drafting": self.drafting,
        }

    @classmethod
    def from_dict(cls, data: dict) -> Knowledge:
        """KeyError, TypeError, ValueError or SettingsError for what `as_dict` did not write."""
        knowledge = cls(
            CostModel.from_dict(data["cost"]),
            Rates.from_dict(data["rates"]),
            AcceptanceHead.from_dict(data["head"]),
            drafting=bool(data["drafting"]),
        )
        for average, (value, weight) in zip(knowledge.matches, data["matches"], strict=True):
            average.value, average.weight = float(value), float(weight)
        return knowledge


class AdaptiveLength:
    """The policy; `translator` None means that only lookups can be proposed."""

    def __init__(self, knowledge: Knowledge, translator: Translator | None, longest: int) -> None:
        self.longest = longest
        self.knowledge = knowledge
        self._foresight = Foresight(translator, knowledge.head, knowledge.rates) if translator else None
        self.silent = False
        self._behind = 0
        self._matched = 0

    def begin(self, behind: int, matched: int) -> int:
        self._behind = behind
        self._matched = matched
        self.silent = False
        if self._foresight is not None:
            self._foresight.begin()
        if not matched:
            return 0
        length, gain = self._best_lookup()
        return length if gain > 0 and gain >= self._best_draft(0, 1.0, 0, fresh=True) else 0

    def more(self, pieces: Sequence[int]) -> bool:
        if self._foresight is None or len(pieces) >= self.longest:
            return False
        if not pieces:
            return self._start()
        alive, proposed = self._foresight.survival(pieces)
        if self.silent:
            return proposed == 0 and len(pieces) < _PROBE_PIECES
        return self._best_draft(len(pieces), alive, proposed) > 0

    def drew(self, row: np.ndarray, piece: int) -> None:
        self._foresight.drew(row, piece)

    def overheard(self, guess: Sequence[Proposal], said: int) -> None:
        """What became of a silent guess: the target said `said` (a target id)."""
        if guess:
            hit = guess[0].target_id == said
            self.knowledge.rates.first.add(float(hit))
            self._foresight.learn(guess[:1], 1, int(hit))

    def observe(self, done: Round, proposals: Sequence[Proposal]) -> None:
        k = self.knowledge
        seconds = done.draft + done.translate + done.verify + done.other
        k.cost.observe_pass(done.proposed + 1, seconds - done.draft)
        k.tokens = _MEMORY * k.tokens + done.emitted
        k.seconds = _MEMORY * k.seconds + seconds
        if proposals and proposals[0].origin == "lookup":
            for depth in range(done.tested):
                self._bucket().add(float(depth < done.accepted))
        elif done.drafted:
            if self._behind <= 4:
                k.cost.observe_steps(done.drafted, done.draft)
            if not self.silent:
                k.rates.observe(done.drafted, done.proposed, done.tested, done.accepted)
                self._foresight.learn(proposals, done.tested, done.accepted)
        if self.silent or not done.drafted:
            k.plain_seconds += seconds - done.draft / self._share()  # a guess uses up what plain decoding saved
        else:
            k.plain_seconds = 0.0

    def _start(self) -> bool:
        """Whether to draft in this round: because it pays, or to find out."""
        k = self.knowledge
        gain = self._best_draft(0, 1.0, 0, fresh=True)
        k.drafting = gain > (0.0 if k.drafting else _HYSTERESIS)
        if k.drafting:
            return True
        self.silent = k.plain_seconds * self._share() >= self._catching_up() + _PROBE_PIECES * k.cost.step
        return self.silent

    def _share(self) -> float:
        return _EARLY_SHARE if self.knowledge.rates.first.weight < _EARLY_SAMPLES else _PROBE_SHARE

    def _best_draft(self, drafted: int, alive: float, proposed: int, *, fresh: bool = False) -> float:
        """The most that drafting on may earn, in tokens: max over longer drafts of gain - R * cost."""
        k = self.knowledge
        if self._foresight is None:
            return 0.0
        rate, per_piece = k.rate, k.rates.per_piece.value
        start = k.cost.pass_seconds(proposed + 1)
        entry = k.cost.fixed + self._catching_up() / _AMORTISED if fresh else 0.0
        best = -np.inf
        for extra in range(1, self.longest - drafted + 1):
            more = per_piece * extra
            width = proposed + 1 + max(1, round(more))
            seconds = entry + extra * k.cost.step + k.cost.pass_seconds(width) - start
            best = max(best, alive * k.rates.kept(more, proposed) - rate * seconds)
        return best

    def _best_lookup(self) -> tuple[int, float]:
        """(how many looked-up tokens to propose, what they are expected to earn in tokens)."""
        k = self.knowledge
        chance = self._bucket().value
        kept, alive, best = 0.0, 1.0, (0, 0.0)
        for length in range(1, self.longest + 1):
            alive *= chance
            kept += alive
            gain = kept - k.rate * (k.cost.pass_seconds(length + 1) - k.cost.pass_seconds(1))
            if gain > best[1]:
                best = (length, gain)
        return best

    def _bucket(self) -> Average:
        return self.knowledge.matches[0 if self._matched < 5 else 1 if self._matched < 9 else 2]

    def _catching_up(self) -> float:
        return max(0, self._behind - 1) * _READ_AHEAD * self.knowledge.cost.step


class GammaLength(AdaptiveLength):
    """The paper's rule (Section 3.4): stop once 1 - prod P(accept) > gamma. Costs play no part, nor do lookups."""

    def __init__(self, knowledge: Knowledge, translator: Translator, longest: int, gamma: float) -> None:
        super().__init__(knowledge, translator, longest)
        self._gamma = gamma

    def begin(self, behind: int, matched: int) -> int:
        return super().begin(behind, 0)

    def more(self, pieces: Sequence[int]) -> bool:
        if len(pieces) >= self.longest:
            return False
        return not pieces or 1.0 - self._foresight.survival(pieces)[0] <= self._gamma
