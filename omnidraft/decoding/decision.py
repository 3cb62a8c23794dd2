"""Do next what is expected to make most tokens per second, by what was measured; measured time has the last word.

The ways are: a plain round; a look (the drafter's first step, proposed only if it is good enough), a draft of as many
pieces as pay, a copy of earlier text, tokens that a grammar forces. With R the long-run tokens per second, proposing m
tokens earns E[kept] - R (C(m + 1) - C(1)), and drafting on pays iff for some longer draft
E[further kept] - R (further steps D + C(m' + 1) - C(m + 1)) > 0; all longer ones are looked at, because C is
a staircase and a piece inside an n-gram earns nothing before its token closes. Where nothing pays, rounds are plain
and only counted until the next try is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Protocol

import numpy as np

from omnidraft.decoding.chances import Chances, Knowledge, copy_class
from omnidraft.decoding.cost import NEAR, Watch
from omnidraft.decoding.events import Round
from omnidraft.decoding.guard import STALL
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Proposal, Translator

# When to stop drafting: the policy's side of a round, and the one that needs no measured times. A policy is told when
# a round begins, sees each piece that is drawn, says whether one more is worth its time, and learns from how the round
# went. The one that goes by measured time is in decision.py.


PLAIN = -1


class LengthPolicy(Protocol):
    """Decides who drafts in a round and how much. longest: no round drafts more pieces, or copies more tokens. state:
    in words, whether drafting goes on by measured time, "" where that is not measured. rests: the round is plain
    without another thought, and not begun, unless there is something to copy."""

    longest: int

    @property
    def state(self) -> str: ...

    @property
    def rests(self) -> bool: ...

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        """A round begins; returns how many looked-up tokens to propose, 0 to leave it to the drafter, `PLAIN` for
        neither. behind: ids the drafter has yet to read; carried: pieces of the last round that are proposed anyway."""
        ...

    def more(self, pieces: Sequence[int]) -> bool:
        """Whether to draft another piece behind `pieces`; asked before each one, the first included. May depend on
        earlier pieces alone, or rejection sampling is biased."""
        ...

    def drew(self, row: np.ndarray, piece: int) -> None:
        """`piece` was drawn from the drafter's logits `row` (V_drafter,), undraftable pieces masked."""
        ...

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        """Whether to propose what was drafted. Not asked by rejection sampling, as it depends on the pieces."""
        ...

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        """The round has ended; `proposals` is what was verified, `said` the id of the first token it made."""
        ...

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """The same of what was drafted behind proposals of others; the round's times are no draft's."""
        ...

    def finish(self) -> None:
        """The answer has ended."""
        ...


class FixedLength:
    """Draft `length` pieces in every round; never look up."""

    state, rests = "", False

    def __init__(self, length: int) -> None:
        self.longest = length

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        return 0

    def more(self, pieces: Sequence[int]) -> bool:
        return len(pieces) < self.longest

    def drew(self, row: np.ndarray, piece: int) -> None:
        pass

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        return True

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        pass

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        pass

    def finish(self) -> None:
        pass


# Tokens that a look, or a copy, must promise before it is begun: below that, estimates are mistaken as often as not.
_PROMISE = 0.1
_PROBE_PIECES = 3  # drafted at most until the first proposal is complete: longer tokens are rare
_READ_AHEAD = 0.1  # of a draft step: one more id where the drafter reads what it missed in one pass (measured 0.05-0.2)
_REST = 8  # plain rounds without another thought at most: a machine that changes is noticed no later than that
_KEPT_OFFSET = 0.8  # of an answer's offset, what the next one begins with
_EXPECTED = "plain: drafting is not expected to pay"


class Decision:
    """The policy for one answer; `translator` None means that only copies can be proposed."""

    def __init__(self, knowledge: Knowledge, translator: Translator | None, longest: int) -> None:
        self.longest, self.knowledge = longest, knowledge
        self._drafts = translator is not None
        self._chances = Chances(translator, knowledge.head, knowledge.rates, knowledge.offset)
        self._watch = Watch(quiet=False)
        self._rest = 0  # plain rounds to come without another thought
        self._plain = [0, 0.0]  # rounds and seconds of them, not yet told
        self._stall = STALL * knowledge.cost.pass_seconds(1)
        self._threads = knowledge.cost.threads
        self._behind = 0
        self._match = NO_MATCH
        self._probing = False  # this round's draft is to find out
        self._looked: list[Proposal] = []  # what was drafted and not proposed
        self._news = True  # something was heard of drafting since it was thought over
        knowledge.look.again()

    @property
    def state(self) -> str:
        guard = self.knowledge.guard
        if not self._drafts:
            return ""
        return guard.words if self.knowledge.drafting or guard.draft.state != "on" else _EXPECTED

    @property
    def rests(self) -> bool:
        return self._rest > 0

    # what to do in a round

    def begin(self, behind: int, match: Match, carried: int = 0) -> int:
        self._behind, self._match, self._probing, self._looked = behind, match, False, []
        self._chances.begin(carried)
        self._tell_plain()
        if self.knowledge.guard.references:
            return self._plainly(self.knowledge.guard.references)
        copied, gain = self._best_copy()
        drafts = self._drafts and self._expects()
        if copied and not (drafts and self._chances.rates.look.value > gain):
            return self._copying(copied)
        if drafts:
            return 0
        wait = self._wait() if self._drafts else _REST
        self._probing = self._drafts and wait <= 0
        if not self._probing:
            return self._plainly(wait)
        if self.knowledge.guard.draft.state == "off":
            self.knowledge.guard.draft.begin_trial()
        return 0

    def _copying(self, tokens: int) -> int:
        copy = self.knowledge.guard.copy
        if copy.state == "off":
            copy.begin_trial()
        return tokens

    def _plainly(self, rounds: float) -> int:
        """So many plain rounds, unless a passage to copy turns up before."""
        self._rest = int(max(1.0, min(rounds, _REST)))
        return PLAIN

    def _expects(self) -> bool:
        """Whether drafting is expected to pay, and measured time does not say otherwise."""
        k, state = self.knowledge, self.knowledge.guard.draft.state
        if self._news:
            self._news = False
            gain = self._chances.rates.look.value - k.rate * (self._look_seconds() + self._reading() / NEAR)
            k.drafting = gain > (0.0 if k.drafting else 0.5 * _PROMISE)
        return state == "trial" or (state == "on" and k.drafting)

    def _wait(self) -> float:
        """Plain rounds until drafting is tried again: by a look, or by a trial where it was ended."""
        k = self.knowledge
        reading = self._reading() / k.cost.pass_seconds(1)
        if k.guard.draft.state == "off":
            return k.guard.draft.retry.rounds_left(2.0 + reading)
        return k.look.rounds_left(reading + self._look_seconds() / k.cost.pass_seconds(1))

    def _look_seconds(self) -> float:
        return self.knowledge.cost.step / max(self._chances.rates.per_piece.value, 1 / _PROBE_PIECES)

    def _reading(self) -> float:
        """Seconds for what the drafter has missed."""
        return max(0, self._behind - 1) * _READ_AHEAD * self.knowledge.cost.step

    def _best_copy(self) -> tuple[int, float]:
        """(how many looked-up tokens to propose, what they are expected to earn in tokens)."""
        match, copy = self._match, self.knowledge.guard.copy
        if not match.length or (copy.state == "off" and copy.retry.rounds_left(2.0)):
            return 0, 0.0
        rates = self._chances.rates.copies
        found = [rates[self._class(depth)].value for depth in range(min(self.longest, len(match.ids)))]
        gains = [self._gain(found[:n]) for n in range(1, len(found) + 1)]
        best = max(gains, default=0.0)
        return (gains.index(best) + 1, best) if best > _PROMISE else (0, 0.0)

    def _class(self, depth: int) -> int:
        match = self._match
        return copy_class(match.length + depth, match.own, depth < match.agreed)

    def _gain(self, chances: Sequence[float]) -> float:
        """What proposing is expected to earn, in tokens: kept proposals less what the wider pass costs."""
        cost = self.knowledge.cost
        wider = cost.pass_seconds(len(chances) + 1) - cost.pass_seconds(1)
        return sum(accumulate(chances, mul)) - self.knowledge.rate * wider

    # while the drafter drafts

    def more(self, pieces: Sequence[int]) -> bool:
        if not self._drafts or len(pieces) >= self.longest:
            return False
        proposals = self._chances.segment(pieces) if pieces else []
        if not proposals:
            return len(pieces) < _PROBE_PIECES
        alive = 1.0
        for chance in self._chances.of(proposals):
            alive *= chance
        return self._best_draft(len(pieces), alive, len(proposals)) > 0

    def _best_draft(self, drafted: int, alive: float, proposed: int) -> float:
        """The most that drafting on may earn, in tokens: max over longer drafts of gain - R * cost."""
        cost, rate, rates = self.knowledge.cost, self.knowledge.rate, self._chances.rates
        start = cost.pass_seconds(proposed + 1)
        best = -np.inf
        for extra in range(1, self.longest - drafted + 1):
            more = rates.per_piece.value * extra
            width = proposed + 1 + max(1, round(more))
            seconds = extra * cost.step + cost.pass_seconds(width) - start
            best = max(best, alive * rates.kept(more, proposed) - rate * seconds)
        return best

    def drew(self, row: np.ndarray, piece: int) -> None:
        self._chances.drew(row, piece)

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        proposals = self._chances.segment(pieces)
        gain = self._gain(self._chances.of(proposals)) if proposals else 0.0
        self._chances.looked(max(0.0, gain))
        unknown = self._probing and not self.knowledge.cost.is_used(len(proposals) + 1)
        if gain > 0 or unknown or self.knowledge.guard.draft.state == "trial":
            return True
        self._looked = proposals
        return False

    # what became of it

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        if done.threads:
            self._threads = done.threads[0]
        if done.plain:
            self._rest -= 1
            self._plain[0] += 1
            self._plain[1] += min(done.verify + done.other, self._stall)
            if self._match.length:
                self._observe_match(done, False, said)
            return
        k, seconds = self.knowledge, done.draft + done.translate + done.verify + done.other
        if k.cost.threads != self._threads:
            k.cost.threads = self._threads
        k.remember(done.emitted, seconds)
        drafting = done.draft + done.translate if done.drafted else 0.0
        if self._rest > 0 and not proposals:  # the first round behind a wider one
            self._rest -= 1
            k.cost.observe_return(seconds)
        elif not proposals and not done.drafted:
            k.cost.observe_return(seconds)
        else:
            k.cost.observe_pass(done.proposed + 1, seconds - drafting)
        copied = bool(done.copied)
        if self._match.length:
            self._observe_match(done, copied, said)
        if copied:
            k.guard.proposed(k.guard.copy, done.emitted, seconds + k.cost.fixed)
        elif done.drafted or proposals:
            self._observe_draft(done, proposals, said, seconds)

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        if proposals:
            self._chances.learn(proposals, done.tested, done.accepted, done.drafted)
            self._news = True

    def _observe_match(self, done: Round, copied: bool, said: int) -> None:
        right = done.accepted > 0 if copied else self._match.ids[0] == said
        for depth in range(done.tested if copied else 1):
            self._chances.copied(self._class(depth), depth < done.accepted if copied else right)
        self._match = NO_MATCH

    def _observe_draft(self, done: Round, proposals: Sequence[Proposal], said: int, seconds: float) -> None:
        k, drafting = self.knowledge, done.draft + done.translate
        missed = max(0, self._behind - 1)
        reading = self._reading() if missed > 1 else 0.0
        if done.drafted:
            k.cost.observe_steps(done.drafted + _READ_AHEAD * missed, drafting)
        hit = done.accepted if proposals else int(bool(self._looked) and self._looked[0].target_id == said)
        if self._looked:
            self._chances.learn(self._looked[:1], 1, hit, 0)
        else:
            self._chances.learn(proposals, done.tested, done.accepted, done.drafted)
        self._news = True
        if k.drafting or k.guard.draft.state != "on":
            k.guard.proposed(k.guard.draft, done.emitted, seconds, reading)
        else:
            k.look.failed(done.emitted - seconds / k.cost.pass_seconds(1))
            if proposals and hit:
                k.look.again(at_once=True)

    def _tell_plain(self) -> None:
        """Plain rounds are many and alike, and must cost nothing: they are told together."""
        k, rounds, seconds = self.knowledge, int(self._plain[0]), self._plain[1]
        self._rest = 0
        if not rounds:
            return
        self._plain = [0, 0.0]
        if k.cost.threads != self._threads:
            k.cost.threads = self._threads
        k.cost.observe_pass(1, seconds / rounds, rounds)
        self._stall = STALL * k.cost.pass_seconds(1)
        k.remember(rounds, seconds, rounds)
        if k.guard.plain(seconds / rounds, rounds):
            k.cost.doubt()
        reading = self._reading() / k.cost.pass_seconds(1)
        k.look.wait(rounds, reading)
        k.guard.draft.retry.wait(rounds, reading + 2.0)
        k.guard.copy.retry.wait(rounds)
        if self._watch.look():
            k.cost.keep()

    def finish(self) -> None:
        self._tell_plain()
        self.knowledge.offset = _KEPT_OFFSET * self._chances.offset


def make_policy(settings: DraftSettings, knowledge: Knowledge | None, translator: Translator | None) -> LengthPolicy:
    """`knowledge` is needed for every mode but "fixed"; without a translator only lookups can be proposed."""
    if settings.mode == "fixed" or knowledge is None:
        return FixedLength(settings.length)
    return Decision(knowledge, None if settings.mode == "lookup" else translator, settings.max_length)
