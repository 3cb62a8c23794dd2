"""How far to draft: next comes what is expected to make most tokens per second, and measured time has the last word.

With C(n) the seconds of a target pass over n rows, D those of a draft step and R the tokens per second in the long
run, proposing m tokens earns E[kept] - R (C(m + 1) - C(1)) tokens, and drafting on pays iff for some longer draft
E[further kept] - R (further steps D + C(m' + 1) - C(m + 1)) > 0; all longer ones are looked at, because C is a
staircase and a piece inside an n-gram earns nothing before its token closes. C and D are cost.py's, how likely tokens
are kept is acceptance.py's, whether proposing gains on plain rounds by the clock is against_plain.py's. `PairStats` is
all that is known of one pair, `AdaptiveDepth` decides the rounds of one answer. Nothing here knows a model; the text
never depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

import numpy as np

from omnidraft.decoding.acceptance import AcceptanceHead, Average, Averages, Drafted, copy_class
from omnidraft.decoding.against_plain import LOSS, STALL, Backoff, PlainComparison
from omnidraft.decoding.cost import NEAR, CostModel
from omnidraft.decoding.drafting import PLAIN, FixedLength, LengthPolicy
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.processes.contention import Contention
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Proposal, Translator

# Of the long-run rate, per round: several answers, so that one does not decide what time is worth.
MEMORY = 0.995
# Tokens that a first draft, or a copy, must promise before it is begun: below, estimates are mistaken as often as not.
PROMISE = 0.1
# Pieces of the longest draft: more are hardly ever accepted. Copies are as long as what speaks for them.
LONGEST = 16
# Pieces drafted at most until the first proposal is complete: longer tokens are rare.
PROBE_PIECES = 3
# Of a draft step: one more id where the drafter reads what it missed in one pass (measured: 0.05 to 0.2).
READ_AHEAD = 0.1
# Plain rounds in a row without another thought: a machine that changes is noticed no later than that.
REST = 8


@dataclass(slots=True)
class PairStats:
    """What was measured of a drafter-target pair on this machine in one kind of sampling; lives as long as the pair and
    is stored. offset: the next answer begins with, see `Drafted`; tokens, seconds: fading sums over all rounds."""

    cost: CostModel
    averages: Averages = field(default_factory=Averages)
    head: AcceptanceHead = field(default_factory=AcceptanceHead)
    expected: bool = True  # that drafting pays
    against_plain: PlainComparison = field(default_factory=PlainComparison)
    probe: Backoff = field(default_factory=Backoff)  # where drafting is not expected to pay
    offset: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.against_plain.draft.state == "on" and len(self.cost.passes) > 1:  # one figure may have been a stall
            self.against_plain.expect(self.cost.pass_seconds(1))

    @property
    def drafts(self) -> bool:
        """Whether drafting is expected to pay, and was not ended."""
        return self.expected and self.against_plain.draft.state != "off"

    @property
    def rate(self) -> float:
        """R, tokens per second in the long run, never below plain decoding's."""
        plain = 1.0 / self.cost.pass_seconds(1)
        return max(plain, self.tokens / self.seconds) if self.seconds else plain

    def remember(self, tokens: int, seconds: float, rounds: int = 1) -> None:
        """Tokens emitted in `rounds` that took `seconds` together."""
        kept = MEMORY**rounds
        self.tokens, self.seconds = kept * self.tokens + tokens, kept * self.seconds + seconds

    def another_drafter(self) -> None:
        """It drafts from now on: that the one before was left says nothing about it."""
        self.against_plain.draft.backoff = Backoff()

    def as_dict(self) -> dict:
        return {
            "cost": self.cost.as_dict(),
            "averages": self.averages.as_dict(),
            "head": self.head.as_dict(),
            "expected": self.expected,
            "plain": self.against_plain.draft.state == "off",
        }

    @classmethod
    def from_dict(cls, data: Mapping) -> PairStats:
        """KeyError, TypeError, ValueError or SettingsError for what `as_dict` did not write."""
        return cls(
            CostModel.from_dict(data["cost"]),
            Averages.from_dict(data["averages"]),
            AcceptanceHead.from_dict(data["head"]),
            bool(data["expected"]),
            PlainComparison(bool(data["plain"])),
        )


class AdaptiveDepth:
    """The policy for one answer; `translator` None means that only copies can be proposed. `LengthPolicy` has what its
    methods are asked."""

    def __init__(self, stats: PairStats, translator: Translator | None, longest: int) -> None:
        self.longest, self.stats = longest, stats
        self._drafts = translator is not None
        self._drafted = Drafted(translator, stats.head, stats.averages.local(), stats.offset)
        self._averages = self._drafted.averages
        self._contention = Contention(quiet=False)
        self._rest = 0  # plain rounds to come without another thought
        self._plain: tuple[int, float] = (0, 0.0)  # rounds and seconds of them, not yet told
        self._missed = 0  # ids the drafter has yet to read
        self._match = NO_MATCH
        self._probing = False  # this round's draft is to find out
        self._unproposed: list[Proposal] = []
        stats.probe.again()

    @property
    def rests(self) -> bool:
        return self._rest > 0

    # what to do in a round

    def begin(self, behind: int, match: Match) -> int:
        self._missed, self._match, self._probing, self._unproposed = max(0, behind - 1), match, False, []
        copied, gain = self._best_copy()
        if self._rest > 0 and not copied:
            return PLAIN  # as if nothing had been found
        self._drafted.begin()
        self._tell_plain()
        self._rest = 0
        against = self.stats.against_plain
        if against.wanted:
            return self._plainly(against.wanted)
        drafts = self._drafts and self._pays()
        if copied and not (drafts and self._promised() > gain):
            if against.copy.state == "off":
                against.copy.begin_trial()
            return copied
        if drafts:
            return 0
        wait = self._wait() if self._drafts else REST
        if wait > 0:
            return self._plainly(wait)
        self._probing = True
        if against.draft.state == "off":
            against.draft.begin_trial()
        return 0

    def _plainly(self, rounds: float) -> int:
        """So many plain rounds, unless a passage to copy turns up before."""
        self._rest = int(max(1.0, min(rounds, REST)))
        return PLAIN

    def _pays(self) -> bool:
        """Whether drafting is expected to pay, and measured time does not say otherwise."""
        stats, state = self.stats, self.stats.against_plain.draft.state
        stats.expected = self._promised() > (0.0 if stats.expected else 0.5 * PROMISE)
        return state == "trial" or (state == "on" and stats.expected)

    def _promised(self) -> float:
        """What a draft is expected to earn, in tokens; what has to be read for it serves later ones, too."""
        return self._averages.look.value - self.stats.rate * (self._first_seconds() + self._reading() / NEAR)

    def _wait(self) -> float:
        """Plain rounds until drafting is tried again: by a first draft, or by a trial where it was ended."""
        stats, plain = self.stats, self.stats.cost.pass_seconds(1)
        if stats.against_plain.draft.state == "off":
            return stats.against_plain.draft.backoff.rounds_left(LOSS + self._reading() / plain)
        return stats.probe.rounds_left((self._reading() + self._first_seconds()) / plain)

    def _first_seconds(self) -> float:
        """For a draft's first proposal."""
        return self.stats.cost.step / max(self._averages.per_piece.value, 1 / PROBE_PIECES)

    def _reading(self) -> float:
        """Seconds for what the drafter has missed."""
        return self._missed * READ_AHEAD * self.stats.cost.step

    def _best_copy(self) -> tuple[int, float]:
        """(how many looked-up tokens to propose, what they are expected to earn in tokens)."""
        match, copy = self._match, self.stats.against_plain.copy
        if not match.ids or (copy.state == "off" and copy.backoff.rounds_left(LOSS)):
            return 0, 0.0
        gains = self._gains([self._copies(depth).value for depth in range(len(match.ids))])
        best = max(gains, default=0.0)
        return (gains.index(best) + 1, best) if best > PROMISE else (0, 0.0)

    def _copies(self, depth: int) -> Average:
        """Of the match's token at `depth`."""
        match = self._match
        found = copy_class(match.length + depth, match.own, depth < match.agreed, match.resumed)
        return self._averages.copies[found]

    def _gains(self, chances: Sequence[float]) -> list[float]:
        """What proposing the first, the first two and so on is expected to earn, in tokens: kept ones less what the
        wider pass costs."""
        cost, rate = self.stats.cost, self.stats.rate
        narrow = cost.pass_seconds(1)
        kept = accumulate(accumulate(chances, mul))
        return [tokens - rate * (cost.pass_seconds(n) - narrow) for n, tokens in enumerate(kept, 2)]

    # while the drafter drafts

    def more(self, pieces: Sequence[int]) -> bool:
        if not self._drafts or len(pieces) >= self.longest:
            return False
        proposals = self._drafted.segment(pieces) if pieces else []
        if not proposals:
            return len(pieces) < PROBE_PIECES
        alive = float(np.prod(self._drafted.chances(proposals)))
        longer = range(1, self.longest - len(pieces) + 1)
        return any(self._gain_of_more(extra, alive, len(proposals)) > 0 for extra in longer)

    def _gain_of_more(self, pieces: int, alive: float, proposed: int) -> float:
        """What so many more pieces are expected to earn, in tokens; alive: P(all that is `proposed` is accepted)."""
        cost, tokens = self.stats.cost, self._averages.per_piece.value * pieces
        width = proposed + 1 + max(1, round(tokens))
        seconds = pieces * cost.step + cost.pass_seconds(width) - cost.pass_seconds(proposed + 1)
        return alive * self._averages.kept(tokens, proposed) - self.stats.rate * seconds

    def drew(self, row: np.ndarray, piece: int) -> None:
        self._drafted.drew(row, piece)

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        proposals = self._drafted.segment(pieces)
        gain = self._gains(self._drafted.chances(proposals))[-1] if proposals else 0.0
        self._averages.look.add(max(0.0, gain))
        unknown = self._probing and not self.stats.cost.now.is_used(len(proposals) + 1)
        if gain > 0 or unknown or self.stats.against_plain.draft.state == "trial":
            return True
        self._unproposed = proposals
        return False

    # what became of it

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        stats, cost, seconds = self.stats, self.stats.cost, done.draft + done.translate + done.verify + done.other
        if done.threads and done.threads[0] != cost.threads:
            self._tell_plain()
            cost.threads = done.threads[0]
        if self._match.ids:
            self._observe_match(done, said)
        if done.plain:
            self._rest -= 1
            rounds, sum_of_them = self._plain
            self._plain = (rounds + 1, sum_of_them + min(seconds, STALL * cost.alone(1)))
            return
        stats.remember(done.emitted, seconds)
        if proposals or done.drafted:
            cost.observe_pass(done.proposed + 1, seconds - (done.draft + done.translate if done.drafted else 0.0))
        else:  # behind a wider one
            self._rest -= 1
            cost.observe_return(seconds)
        if done.copied:
            stats.against_plain.observe(stats.against_plain.copy, done.emitted, seconds + cost.fixed)
        elif done.drafted or proposals:
            self._observe_draft(done, proposals, said, seconds)

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        self._drafted.learn(proposals, done.tested, done.accepted, done.drafted)

    def _observe_match(self, done: Round, said: int) -> None:
        """An unproposed copy is compared with what the target says, which costs nothing."""
        right = done.accepted if done.copied else int(self._match.ids[0] == said)
        for depth in range(done.tested if done.copied else 1):
            self._copies(depth).add(float(depth < right))
        self._match = NO_MATCH

    def _observe_draft(self, done: Round, proposals: Sequence[Proposal], said: int, seconds: float) -> None:
        stats, reading = self.stats, self._reading() if self._missed > 1 else 0.0
        if done.drafted:
            stats.cost.observe_steps(done.drafted + READ_AHEAD * self._missed, done.draft + done.translate)
        hit = done.accepted > 0
        if self._unproposed:
            hit = self._unproposed[0].target_id == said
            self._drafted.learn(self._unproposed[:1], 1, int(hit), 0)
        else:
            self._drafted.learn(proposals, done.tested, done.accepted, done.drafted)
        if stats.expected or stats.against_plain.draft.state != "on":
            stats.against_plain.observe(stats.against_plain.draft, done.emitted, seconds, reading)
            return
        stats.probe.failed(done.emitted - seconds / stats.cost.pass_seconds(1), NEAR)
        if proposals and hit:
            stats.probe.again(at_once=True)

    def _tell_plain(self) -> None:
        """Plain rounds are many and alike, and must cost nothing: they are told together."""
        stats, (rounds, seconds) = self.stats, self._plain
        self._plain = (0, 0.0)
        if not rounds:
            return
        stats.cost.observe_pass(1, seconds / rounds, rounds)
        stats.remember(rounds, seconds, rounds)
        if stats.against_plain.observe_plain(seconds / rounds, rounds):
            stats.cost.now.doubt()
        reading = self._reading() / stats.cost.pass_seconds(1)
        stats.probe.wait(rounds, reading)
        stats.against_plain.draft.backoff.wait(rounds, reading + LOSS)
        stats.against_plain.copy.backoff.wait(rounds)
        if self._contention.quiet_since():
            stats.cost.keep()

    def finish(self) -> None:
        self._tell_plain()
        self.stats.offset = 0.8 * self._drafted.offset


def make_policy(
    settings: DraftSettings, stats: PairStats | None, translator: Translator | None, most: int
) -> LengthPolicy:
    """`stats` are needed for every mode but "fixed"; without a translator only lookups can be proposed. most: pieces of
    the longest draft that the target can read in one pass."""
    if settings.mode == "fixed" or stats is None:
        return FixedLength(min(settings.length, most))
    return AdaptiveDepth(stats, None if settings.mode == "lookup" else translator, min(LONGEST, most))
