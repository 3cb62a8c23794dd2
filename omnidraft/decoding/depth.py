"""How far to draft: what is expected to make most tokens per second comes next, and measured time has the last word.

With C(n) the seconds of a target pass over n rows, D those of a draft step and R the tokens per second in the long
run, proposing m tokens earns E[kept] - R (C(m + 1) - C(1)) tokens, and drafting on pays iff for some longer draft
E[further kept] - R (further steps D + C(m' + 1) - C(m + 1)) > 0; all longer ones are looked at, because C is a
staircase and a piece inside an n-gram earns nothing before its token closes. A way to propose that lost by the clock,
whatever was expected of it, or of which nothing is expected, is tried again as its patience says. `AdaptiveDepth`
decides the rounds of one answer by the pair's `Pace`. Nothing here knows a model; the text never depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from operator import mul

import numpy as np

from omnidraft.decoding.acceptance import Average, Drafted, copy_class
from omnidraft.decoding.drafting import PLAIN, FixedLength, LengthPolicy
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.decoding.pace import TRIAL, Pace
from omnidraft.processes.contention import Contention
from omnidraft.processes.trying import RENEWING
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Proposal, Translator

# Pieces of the longest draft: more are hardly ever accepted. Copies are as long as what speaks for them.
LONGEST = 16
# Of a draft step: one more id where the drafter reads what it missed in one pass (measured: 0.05 to 0.2).
READ_AHEAD = 0.1
# Plain rounds in a row without another thought: a machine that changes is noticed no later than that.
REST = 16


class AdaptiveDepth(LengthPolicy):
    """The policy for one answer; `translator` None means that only copies can be proposed."""

    def __init__(self, pace: Pace, translator: Translator | None, longest: int) -> None:
        super().__init__(longest)
        self.pace = pace
        self._drafts = translator is not None
        self._drafted = Drafted(translator, pace.head, pace.averages.local(), pace.offset)
        self._averages = self._drafted.averages
        self._contention = Contention(quiet=False)
        self._rest = 0  # plain rounds to come without another thought
        self._plain: list[float] = []  # seconds of plain rounds, not yet told
        self._missed = 0  # ids the drafter has yet to read
        self._wide = False  # the last pass had several rows
        self._match = NO_MATCH
        self._tries = 0  # rounds to come whose drafts are to find out: once what was missed is read, they cost little
        self._trying = False  # this round's draft is one of them
        self._unproposed: list[Proposal] = []

    @property
    def rests(self) -> bool:
        return self._rest > 0

    # what to do in a round

    def begin(self, behind: int, match: Match) -> int:
        self._missed, self._match, self._trying, self._unproposed = max(0, behind - 1), match, False, []
        copied, gain = self._best_copy()
        if self._rest > 0 and not copied:
            return PLAIN  # as if nothing had been found
        self._drafted.begin()
        self._tell_plain()
        self._rest = 0
        if self.pace.plain_is_due:
            self.pace.plain.tried()
            return self._plainly(RENEWING)
        drafts, promised = False, self._promised()
        if self._drafts:
            self.pace.expected = promised > 0
            drafts = self.pace.drafts
        if copied and not (drafts and promised > gain):
            return copied
        if drafts:
            self._tries = 0
            return 0
        if self._tries == 0:
            wait = self.pace.draft.patience.left(self._price()) if self._drafts else REST
            if wait > 0:
                return self._plainly(wait)
            self.pace.draft.try_again()
            self._tries = self._looks()
        self._tries -= 1
        self._trying = True
        return 0

    def _plainly(self, rounds: float) -> int:
        """So many plain rounds, unless a passage to copy turns up before."""
        self._rest = ceil(min(rounds, REST))
        return PLAIN

    def _promised(self) -> float:
        """What a draft is expected to earn, in tokens; what has to be read for it serves later ones, too."""
        return self._averages.look.value - self.pace.rate * self._first_seconds()

    def _price(self) -> float:
        """Plain rounds that trying to draft may lose: some first drafts', and a trial's if the clock ended it."""
        seconds = self._reading() + self._looks() * self._first_seconds()
        return seconds / self.pace.plain_seconds + (TRIAL if self.pace.draft.left else 0.0)

    def _looks(self) -> int:
        """First drafts of a try: as many as a plain round has time for."""
        plain, first = self.pace.plain_seconds, self._first_seconds()
        return max(1, sum(looks * first <= plain for looks in range(1, RENEWING + 1)))

    def _first_seconds(self) -> float:
        """For a draft's first proposal."""
        return self.pace.step / self._averages.per_piece.value

    def _reading(self) -> float:
        """Seconds for what the drafter has missed."""
        return self._missed * READ_AHEAD * self.pace.step

    def _best_copy(self) -> tuple[int, float]:
        """(how many looked-up tokens to propose, what they are expected to earn in tokens)."""
        match, copy = self._match, self.pace.copy
        if match.length < 2 or (copy.left and copy.patience.left(TRIAL)):  # one id alone agrees by chance
            return 0, 0.0
        gains = self._gains([self._copies(depth).value for depth in range(len(match.ids))])
        best = max(gains, default=0.0)
        if best <= 0:
            return 0, 0.0
        if copy.left:
            copy.try_again()
        return gains.index(best) + 1, best

    def _copies(self, depth: int) -> Average:
        """Of the match's token at `depth`."""
        match = self._match
        found = copy_class(match.length + depth, match.own, depth < match.agreed, match.resumed)
        return self._averages.copies[found]

    def _gains(self, chances: Sequence[float]) -> list[float]:
        """What proposing the first, the first two and so on is expected to earn, in tokens: kept ones less what the
        wider pass costs."""
        rate, kept = self.pace.rate, accumulate(accumulate(chances, mul))
        return [tokens - rate * self._extra(rows) for rows, tokens in enumerate(kept, 2)]

    def _extra(self, rows: int) -> float:
        """Seconds that a pass of so many rows takes longer than one of a single row would now."""
        return self.pace.extra(rows, returning=not self._wide)

    # while the drafter drafts

    def more(self, pieces: Sequence[int]) -> bool:
        if not self._drafts or len(pieces) >= self.longest:
            return False
        proposals = self._drafted.segment(pieces) if pieces else []
        if not proposals:
            return len(pieces) < 3  # tokens of more pieces are rare
        alive = float(np.prod(self._drafted.chances(proposals)))
        longer, rate = range(1, self.longest - len(pieces) + 1), self.pace.rate
        return any(self._gain_of_more(extra, alive, len(proposals), rate) > 0 for extra in longer)

    def _gain_of_more(self, pieces: int, alive: float, proposed: int, rate: float) -> float:
        """What so many more pieces are expected to earn, in tokens; alive: P(all that is `proposed` is accepted)."""
        tokens = self._averages.per_piece.value * pieces
        width = proposed + 1 + max(1, round(tokens))
        seconds = pieces * self.pace.step + self._extra(width) - self._extra(proposed + 1)
        return alive * self._averages.kept(tokens, proposed) - rate * seconds

    def drew(self, row: np.ndarray, piece: int) -> None:
        self._drafted.drew(row, piece)

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        proposals = self._drafted.segment(pieces)
        gain = self._gains(self._drafted.chances(proposals))[-1] if proposals else 0.0
        self._averages.look.add(max(0.0, gain))
        if gain > 0 or (self._trying and not self.pace.passes.is_used(len(proposals) + 1)):
            return True
        self._unproposed = proposals
        return False

    # what became of it

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        pace, seconds = self.pace, done.draft + done.translate + done.verify + done.other
        self._wide = done.proposed > 0
        if done.threads and done.threads[0] != pace.threads:
            self._tell_plain()
            pace.threads = done.threads[0]
        if self._match.ids:
            self._observe_match(done, said)
        if done.plain:
            self._rest -= 1
            self._plain.append(seconds)
            return
        pace.observe(done.emitted, seconds)
        if done.copied:
            rounds = (seconds + pace.fixed) / pace.plain_seconds
            pace.copy.observe(done.emitted, rounds, recent=pace.plain_is_recent)
            pace.passes.observe(done.proposed + 1, seconds)
        elif done.drafted or proposals:
            self._observe_draft(done, proposals, said, seconds)
        else:  # behind a wider one
            self._rest -= 1
            pace.observe_return(seconds)

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        self._drafted.learn(proposals, done.tested, done.accepted, done.drafted)

    def _observe_match(self, done: Round, said: int) -> None:
        """An unproposed copy is compared with what the target says, which costs nothing."""
        right = done.accepted if done.copied else int(self._match.ids[0] == said)
        for depth in range(done.tested if done.copied else 1):
            self._copies(depth).add(float(depth < right))
        self._match = NO_MATCH

    def _observe_draft(self, done: Round, proposals: Sequence[Proposal], said: int, seconds: float) -> None:
        pace, reading = self.pace, self._reading() if self._missed > 1 else 0.0  # a price of trying decides nothing
        drafting = done.draft + done.translate
        if done.drafted:
            pace.observe_steps(done.drafted + READ_AHEAD * self._missed, drafting)
        if proposals:
            pace.passes.observe(done.proposed + 1, seconds - drafting)
        if proposals or not self._trying:  # a try that only looked says nothing about proposing
            rounds = (seconds - reading) / pace.plain_seconds
            pace.draft.observe(done.emitted, rounds, recent=pace.plain_is_recent)
        if self._unproposed:
            self._drafted.learn(self._unproposed[:1], 1, int(self._unproposed[0].target_id == said), 0)
        else:
            self._drafted.learn(proposals, done.tested, done.accepted, done.drafted)

    def _tell_plain(self) -> None:
        """Plain rounds are many and alike, and must cost nothing: they are told together."""
        plain, self._plain = self._plain, []
        if plain:
            self.pace.observe_plain(plain)
            if self._contention.quiet_since():
                self.pace.keep()

    def finish(self) -> None:
        self._tell_plain()
        self.pace.offset = 0.8 * self._drafted.offset


def make_policy(settings: DraftSettings, pace: Pace | None, translator: Translator | None, most: int) -> LengthPolicy:
    """`pace` is needed for every mode but "fixed"; without a translator only lookups can be proposed. most: pieces of
    the longest draft that the target can read in one pass."""
    if settings.mode == "fixed" or pace is None:
        return FixedLength(min(settings.length, most))
    return AdaptiveDepth(pace, None if settings.mode == "lookup" else translator, min(LONGEST, most))
