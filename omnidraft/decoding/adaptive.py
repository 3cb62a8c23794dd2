"""Draft length by tokens per second: draft on only while it is expected to pay on this machine with this pair.

With R the long-run rate of tokens per second, another stretch of drafting pays iff for some longer draft
E[extra kept tokens] - R * (extra drafter steps * D + C(m' + 1) - C(m + 1)) > 0. All longer drafts are looked at,
because C is a staircase and a piece inside an n-gram earns nothing before its token closes.

Having a look (drafting the first proposal) costs a drafter step, proposing it costs a wider pass; only what looks
good is proposed. Where looking has not been worth it, the answer is decoded plainly, but for the looks that
`Exploration` allows to find out whether that is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from omnidraft.decoding.events import Round
from omnidraft.decoding.exploration import Exploration
from omnidraft.decoding.foresight import Foresight
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import PLAIN
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.decoding.processor import Watch
from omnidraft.vocab import Proposal, Translator

_PROBE_PIECES = 3  # drafted at most until the first proposal of a guess is complete, proposed or not
_HYSTERESIS = 0.05  # tokens a round must promise before drafting resumes
_READ_AHEAD = 0.1  # of a draft step: the cost of one more id when the drafter catches up in one pass
_STALL = 3.0  # times what is expected, what a longer plain round is counted as: it was interrupted
_WATCHED = 0.2  # seconds after which it is asked anew whether the processor works for this program
_SILENT = 3  # rounds of a trial without a proposal, after which the costs that speak against one are doubted
_MARGIN = 0.15  # tokens a copy must promise: of many that look just good enough, most are not
_EXPECTED = "plain: drafting is not expected to pay"
_HOPELESS = 0.03  # chance below which one more copied token is not worth a thought
_OFFSET_KEPT = 0.8  # from one answer to the next
_FAR_BEHIND = 4  # ids to read at once, from which on a round says nothing about a draft step
_AMORTISED = 24  # rounds over which catching up is written off


class AdaptiveLength:
    """The policy for one answer; `translator` None means that only lookups can be proposed.

    Answers differ: what the pair did in the long run is only where an answer's own rates begin.
    """

    def __init__(self, knowledge: Knowledge, translator: Translator | None, longest: int) -> None:
        self.longest = longest
        self.knowledge = knowledge
        self._foresight = Foresight(translator, knowledge.head, knowledge.offset) if translator else None
        self._rates = knowledge.rates.local()
        self._look = knowledge.look.local()
        self._copies = knowledge.copies.local()
        if self._foresight is not None:
            self._foresight.journal = knowledge.journal
        self._withheld = False  # this round's draft was not worth proposing
        self._exploring = False  # this round's look is to find out
        self._behind = 0
        self._match = NO_MATCH
        self._thought = False  # nothing was heard of drafting since it was thought over
        self._exploration = Exploration(knowledge)
        self._watch = Watch(_WATCHED, quiet=False)
        self._guard = knowledge.guard
        self._unproposed = 0  # rounds of a trial before anything was proposed in it
        self._guard.began()
        self._turned = False  # whether the round before had a wider pass
        self._tokens = 0  # of this answer so far
        self._plain = [0, 0.0]  # rounds decoded plainly and their seconds, not yet told to the cost model
        self._plain_round = knowledge.cost.pass_seconds(1)

    @property
    def _trying(self) -> bool:
        """In a trial, whose looks are not `Exploration`'s: it neither pays for them nor earns further ones."""
        return self._guard.stretch == "trial"

    @property
    def state(self) -> str:
        if self._foresight is None:
            return ""
        plain = not (self.knowledge.drafting or self._guard.insists or self._guard.plain_only)
        return _EXPECTED if plain else self._guard.words

    def is_plain(self) -> bool:
        guard = self._guard
        if self._foresight is None or guard.blocks:
            return not (guard.due and self._foresight is not None)
        if self.knowledge.drafting or not self._thought or guard.insists or guard.due:
            return False
        return self._tokens < self._exploration.due or not self._exploration.allows(self._plain[1])

    def begin(self, behind: int, match: Match) -> int:
        k = self.knowledge
        self._behind = behind
        self._match = match
        self._withheld = self._exploring = False
        if self._guard.due and self._foresight is not None:
            self._guard.begin_trial(self._catching_up())
            self._unproposed = 0
        copied, gain = self._best_copy() if match.length and not k.copy_guard.resting else (0, 0.0)
        if not copied and self.is_plain():
            return PLAIN
        self._tell_plain()
        if self._foresight is None:
            return copied
        self._foresight.begin()
        plain = self._guard.blocks or not (k.drafting or self._guard.insists)
        return copied if copied and (plain or gain >= self._look.value) else 0

    def compared(self, right: bool) -> None:
        self._copy_was(0, right)

    def _copy_was(self, depth: int, right: bool) -> None:
        """The looked-up token `depth` behind others that were right was `right`, or not."""
        match = self._match
        for rates in (self.knowledge.copies, self._copies):
            rates.add(match.length + depth, right, own=match.own, agreed=depth < match.agreed)

    def more(self, pieces: Sequence[int]) -> bool:
        if self._foresight is None or len(pieces) >= self.longest:
            return False
        if not pieces:
            return self._start()
        chances = self._foresight.chances(pieces)
        if not chances:
            return len(pieces) < _PROBE_PIECES
        return self._best_draft(len(pieces), prod(chances), len(chances)) > 0

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        chances = self._drafts().chances(pieces)
        gain = max(0.0, self._gain(chances)) if chances else 0.0
        for look in (self.knowledge.look, self._look):
            look.add(gain)
        self._withheld = gain <= 0
        if not self._trying:
            self._exploration.looked(self._tokens, promising=not self._withheld)
        return not self._withheld

    def _drafts(self) -> Foresight:
        """What is known of drafts; there are none without it."""
        assert self._foresight is not None
        return self._foresight

    def _gain(self, chances: Sequence[float]) -> float:
        """What proposing is expected to earn, in tokens: kept proposals less what the wider pass costs."""
        wider = self._pass_seconds(len(chances) + 1) - self.knowledge.cost.pass_seconds(1)
        return sum(accumulate(chances, mul)) - self.knowledge.rate * wider

    def drew(self, row: np.ndarray, piece: int) -> None:
        self._drafts().drew(row, piece)

    def withheld(self, guess: Sequence[Proposal], said: int) -> None:
        """What became of a guess that was not proposed: the target said `said` (a target id)."""
        if guess:
            hit = guess[0].target_id == said
            for rates in (self.knowledge.rates, self._rates):
                rates.first.add(float(hit))
            self._drafts().learn(guess[:1], 1, int(hit))
            self._thought = False
            if hit and not self._trying:
                self._exploration.hit(1, self._tokens)

    def observe(self, done: Round, proposals: Sequence[Proposal]) -> None:
        self._tokens += done.emitted
        seconds = done.draft + done.translate + done.verify + done.other
        if not proposals or proposals[0].origin != "lookup":
            self.knowledge.copy_guard.passed(plain=not done.drafted)
        if not proposals and not done.drafted:
            self._observe_plain(done.emitted, seconds)
            return
        k = self.knowledge
        self._turned = bool(proposals)
        drafting = done.draft + done.translate if done.drafted else 0.0  # small models feel what is beside the model
        k.cost.observe_pass(done.proposed + 1, seconds - drafting, quiet=self._watch.look())
        k.remember(done.emitted, seconds)
        if proposals and proposals[0].origin == "lookup":
            k.copy_guard.copied(done.emitted, seconds + k.cost.fixed, self._guard.plain_seconds)
            for depth in range(done.tested):
                self._copy_was(depth, depth < done.accepted)
            return
        tried = self._trying
        if tried and (not proposals or self._unproposed >= _SILENT):
            self._unproposed += 1
        if not self._exploring:
            self._guard.drafted(done.emitted, seconds, self._catching_up() if self._behind > _FAR_BEHIND else 0.0)
        if self._behind <= _FAR_BEHIND:
            k.cost.observe_steps(done.drafted, drafting)
        if self._exploring and not done.accepted:
            self._exploration.spend(drafting)
        if self._withheld:
            self._exploration.save(seconds - drafting)
            return
        self._thought = False
        self._learn(done, proposals)
        if done.accepted and not tried:
            self._exploration.hit(done.accepted, self._tokens)

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        self._tokens += done.emitted
        if done.tested and not self._withheld:
            self._learn(done, proposals)

    def _learn(self, done: Round, proposals: Sequence[Proposal]) -> None:
        for all_rates in (self.knowledge.rates, self._rates):
            all_rates.observe(done.drafted, done.proposed, done.tested, done.accepted)
        self._drafts().learn(proposals, done.tested, done.accepted)

    def _observe_plain(self, emitted: int, seconds: float) -> None:
        if self._turned:
            self._turned = False
            self.knowledge.cost.observe_return(seconds)
            self.knowledge.remember(emitted, seconds)
        else:
            self._plain[0] += 1
            self._plain[1] += min(seconds, _STALL * self._plain_round)
            self._guard.plain(seconds)

    def finish(self) -> None:
        self._tell_plain()
        if self._tokens:
            self.knowledge.usual.add(self._tokens)
        if self._foresight is not None:
            self.knowledge.offset = _OFFSET_KEPT * self._foresight.offset

    def _tell_plain(self) -> None:
        """Plain rounds are many and alike, and must cost nothing: the cost model hears of them together."""
        k = self.knowledge
        rounds, seconds = int(self._plain[0]), self._plain[1]
        if rounds:
            k.cost.observe_pass(1, seconds / rounds, rounds, quiet=self._watch.look())
            self._plain_round = k.cost.pass_seconds(1)
            k.remember(rounds, seconds, rounds)
            self._exploration.save(seconds)
            self._plain = [0, 0.0]

    def _start(self) -> bool:
        """Whether to have a look in this round: because it pays, or to find out."""
        k = self.knowledge
        if k.drafting or not self._thought:
            step = k.cost.step / max(self._rates.per_piece.value, 0.2)
            gain = self._look.value - k.rate * (step + self._catching_up() / _AMORTISED)
            k.drafting = gain > (0.0 if k.drafting else _HYSTERESIS)
            self._guard.expects(k.drafting)
            self._thought = True
        if k.drafting or self._guard.insists:
            return True
        look = self._catching_up() + k.cost.step / max(self._rates.per_piece.value, 1 / _PROBE_PIECES)
        self._exploring = self._exploration.affords(look, self._tokens)
        return self._exploring

    def _best_draft(self, drafted: int, alive: float, proposed: int) -> float:
        """The most that drafting on may earn, in tokens: max over longer drafts of gain - R * cost."""
        k = self.knowledge
        rate, per_piece = k.rate, self._rates.per_piece.value
        start = self._pass_seconds(proposed + 1)
        best = -np.inf
        for extra in range(1, self.longest - drafted + 1):
            more = per_piece * extra
            width = proposed + 1 + max(1, round(more))
            seconds = extra * k.cost.step + self._pass_seconds(width) - start
            best = max(best, alive * self._rates.kept(more, proposed) - rate * seconds)
        return best

    def _pass_seconds(self, rows: int) -> float:
        """What a pass is expected to take; in a trial that proposes nothing because of it, what it may take."""
        cost = self.knowledge.cost
        return cost.hoped(rows) if self._trying and self._unproposed >= _SILENT else cost.pass_seconds(rows)

    def _best_copy(self) -> tuple[int, float]:
        """(how many looked-up tokens to propose, what they are expected to earn in tokens)."""
        k = self.knowledge
        rate, single = k.rate, k.cost.pass_seconds(1)
        kept, alive, best = 0.0, 1.0, (0, 0.0)
        for length in range(1, self.longest + 1):
            matched, agreed = self._match.length + length - 1, length <= self._match.agreed
            alive *= self._copies.chance(matched, own=self._match.own, agreed=agreed)
            if alive < _HOPELESS:
                break
            kept += alive
            gain = kept - rate * (k.cost.pass_seconds(length + 1) - single)
            if gain > max(best[1], _MARGIN):
                best = (length, gain)
        return best

    def _catching_up(self) -> float:
        return max(0, self._behind - 1) * _READ_AHEAD * self.knowledge.cost.step
