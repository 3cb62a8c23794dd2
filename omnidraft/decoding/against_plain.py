"""Whether proposing gains on plain rounds, by the clock: `Proposer` is one way to propose, `PlainComparison` compares
them with plain rounds over all answers of a pair, `Backoff` says when what was left is tried again.

Everything is counted in saved plain rounds: a round of s seconds that made n tokens saved n - s / c, c being what a
plain round takes at that time. Knows nothing of expectations: those are depth.py's.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean, median

from omnidraft.decoding.acceptance import KEEP
from omnidraft.decoding.cost import NEAR

# Ratio of plain times beyond which the machine does something else, and earlier findings are void.
CHANGED = 1.2
# Plain rounds that proposing may lose before it ends, twice as many where it paid so far: unlucky streaks stay below.
LIMIT = 6.0
# Plain rounds saved or lost that decide a trial: of drafters that lose a quarter of a round, one in nine gets through.
WIN, LOSS = 3.0, 2.0
# Plain rounds that are compared with: their median is known within a few percent.
REFERENCE = 4
# Times the usual, what a longer round is counted as: it was interrupted.
STALL = 3.0
# Rounds between probes double from the first figure to the last: an early mistake is soon mended, a settled one cheap.
FIRST, LAST = 4, 512
# Of the time, what probes may lose, and the plain rounds that the first ones may, as nothing is known yet.
SHARE, OPENING = 0.005, 8.0


class Backoff:
    """When what was left is tried again: at intervals that double while that fails, out of a share of the time."""

    def __init__(self) -> None:
        self.interval, self.credit = FIRST, OPENING
        self._since = 0.0

    def wait(self, rounds: float, price: float = 0.0) -> None:
        """So many rounds went by without; what is saved for the next try goes up to its `price`."""
        self._since += rounds
        self.credit = max(min(self.credit + SHARE * rounds, max(OPENING, price)), self.credit)

    def rounds_left(self, price: float) -> float:
        """Until the next try, which may lose `price` plain rounds; 0: now."""
        return max(self.interval - self._since, (price - self.credit) / SHARE, 0.0)

    def failed(self, saved: float = 0.0, longest: int = LAST) -> None:
        """Tried in vain; saved: plain rounds, negative if it lost some."""
        self.credit, self._since = self.credit + saved, 0.0
        self.interval = min(2 * self.interval, longest)

    def again(self, *, at_once: bool = False) -> None:
        """It may be another matter by now: begin with short intervals."""
        self.interval, self._since = FIRST, float(FIRST) if at_once else 0.0


class Proposer:
    """One way to propose (the drafter, copies) against plain rounds: "on", "off", or on "trial".

    Two sequential tests decide, so that a wrong decision costs a bounded number of tokens however wrong the estimates
    are: Page's CUSUM (1954) ends what pays no more, Wald's SPRT (1945) decides a trial.
    """

    def __init__(self, off: bool = False) -> None:
        self.state = "off" if off else "on"
        self.backoff = Backoff()
        self.gained, self.took = 4.0, 4.0  # tokens, and what they took in plain rounds; fading
        self._tokens, self._seconds = 0, 0.0  # since it last paid
        self._score = 0.0  # of the trial
        self._times: deque[float] = deque(maxlen=9)

    def begin_trial(self) -> None:
        """Of what was ended; the rounds to come decide."""
        self.state, self._score = "trial", 0.0

    def observe(self, tokens: int, seconds: float, plain: float, reading: float) -> None:
        """A round of it, beside plain ones of `plain` seconds (0: unknown); `reading` of its seconds went into what the
        drafter missed, a price of trying that decides nothing."""
        self._times.append(seconds - reading)
        seconds = min(seconds - reading, STALL * median(self._times))
        if self.state == "trial" and plain:
            self._judge(tokens - (seconds + reading) / plain, bool(reading))
        if reading:
            return
        self._tokens, self._seconds = self._tokens + tokens, self._seconds + seconds
        if plain:
            self.gained, self.took = KEEP * self.gained + tokens, KEEP * self.took + seconds / plain
            self.has_lost(plain)

    def has_lost(self, plain: float) -> bool:
        """Whether it lost too much since it last paid, by what a plain round takes now."""
        lost = self._seconds / plain - self._tokens
        if lost <= 0:
            self._tokens, self._seconds = 0, 0.0
        return self.state == "on" and lost >= (2 * LIMIT if self.gained > self.took else LIMIT)

    def end(self) -> None:
        self.state = "off"
        self._tokens, self._seconds = 0, 0.0
        self.backoff.again()

    def _judge(self, saved: float, cold: bool) -> None:
        self.backoff.credit += saved
        self._score += 0.0 if cold else saved
        if self._score <= -LOSS:
            self.state = "off"
            self.backoff.failed()
        elif self._score >= WIN:
            self.state, self._tokens, self._seconds = "on", 0, 0.0


class PlainComparison:
    """Proposing against plain rounds, over all answers of a pair. What a plain round takes is known from those close
    by, and where there are none from a short plain stretch now and then (a *reference*)."""

    def __init__(self, plain: bool = False) -> None:
        """plain: drafting was ended before."""
        self.draft, self.copy = Proposer(off=plain), Proposer()
        self.seconds = 0.0  # of a plain round; 0 while unknown
        self.wanted = 0  # plain rounds now, to compare with
        self._plain: deque[float] = deque(maxlen=3 * REFERENCE)
        self._period = FIRST  # rounds of other kinds before a reference
        self._unheard = 0  # of them since the last plain one

    def expect(self, seconds: float) -> None:
        """What a plain round takes, by passes measured before any answer: drafts begin without a reference."""
        self.seconds, self._period = seconds, 5 * REFERENCE

    def observe_plain(self, seconds: float, rounds: int = 1) -> bool:
        """Plain rounds, `seconds` each. Returns whether the machine does something else now."""
        self._plain.extend([seconds] * min(rounds, 3 * REFERENCE))
        self._unheard = 0
        if len(self._plain) < REFERENCE:
            self.wanted = max(0, self.wanted - rounds)
            return False
        longest = STALL * median(self._plain)
        now = fmean(min(t, longest) for t in self._plain)
        before = self.seconds
        changed = not 1 / CHANGED < now / (before or now) < CHANGED
        if changed or not before or self.draft.state != "off":
            self.seconds = now if changed or not self.wanted else 0.5 * (now + (before or now))
        if self.wanted:
            self.wanted = 0
            self._compare(changed)
        elif (changed or not before) and self.draft.state == "off":
            self.draft.backoff.again()
            self.draft.backoff.credit = max(self.draft.backoff.credit, 2 * OPENING)
        return changed

    def observe(self, proposer: Proposer, tokens: int, seconds: float, reading: float = 0.0) -> None:
        """A round that `proposer` was tried in, see there."""
        self._unheard += 1
        proposer.observe(tokens, seconds, self.seconds, reading)
        lost = bool(self.seconds) and proposer.has_lost(self.seconds)
        if lost and self._unheard <= 3 * REFERENCE:
            proposer.end()
        elif proposer.state == "on" and (lost or self._unheard >= self._period):
            self.wanted = REFERENCE
            self._plain.clear()

    def _compare(self, changed: bool) -> None:
        """A reference is complete: what was proposed since nothing was lost is counted anew."""
        for proposer in (self.draft, self.copy):
            if proposer.has_lost(self.seconds):
                proposer.end()
        pays = any(proposer.gained > proposer.took for proposer in (self.draft, self.copy))
        longer = min(2 * max(self._period, 16), LAST)  # a reference costs what proposing earns
        self._period = longer if pays and not changed else NEAR * (2 if pays else 1)

    @property
    def lost(self) -> float | None:
        """The share of its speed that drafting lost before it was ended; None if it was not, or hardly lost any."""
        lost = 1.0 - self.draft.gained / self.draft.took
        return lost if self.draft.state == "off" and lost > 0.005 else None
