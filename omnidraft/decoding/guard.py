"""Measured speed has the last word: ends drafting that loses against plain rounds, revives what was given up.

Everything is counted in *saved plain rounds*: a round of s seconds that made n tokens saved n - s / c, where c is what
a plain round takes at that time. c comes from plain rounds close by: while drafting, from a short plain stretch now
and then (a *reference*); otherwise from the plain rounds there are. Two sequential tests act on the sum of what was
saved (Page 1954, CUSUM: drafting pays no more; Wald 1945, SPRT: a *trial* of it pays), so that what a wrong decision
can cost is bounded in tokens, however wrong the cost model is. A trial is a stretch, as the first drafted rounds behind
plain ones are dearer than the rest. Which rounds those are and what is drafted in them, the guard does not know.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Literal

from omnidraft.decoding.ratio import STALL, Ratio, steady

_LIMIT = 6.0  # plain rounds that drafting may lose before it ends ...
_SURE_LIMIT = 12.0  # ... where it has clearly paid so far
_VOUCHED_LIMIT = 4.0  # ... and where only a trial speaks for it
_WIN, _LOSS = 3.0, 2.0  # saved plain rounds that decide a trial
_HOPELESS = 2.5  # lost in a trial's cold rounds already, reading aside
_WARM = 2  # first drafted rounds behind plain ones: cold caches, and the drafter reads what it missed
_LEAST, _MOST = 6, 24  # counted rounds of a trial: before it may be won, and after which it is decided
_SHARE, _LATER_SHARE = 0.015, 0.006  # of plain rounds, that trials may lose: at first, and once many were lost in a row
_OFTEN = 3
_READING = 0.015  # likewise for reading what the drafter missed, which happens once whenever drafting comes back
_OPENING = 8.0  # plain rounds that the first trials may lose; generous, as nothing is known yet
_FLOOR = -1.0  # debts beyond are forgiven: a drafter that has become good must be found out in time
_CREDIT = 12.0  # saved up at most
_GAP = 24  # plain rounds before a trial of drafting that was ended
_REST_GAP, _LONGEST_GAP = 96, 1536  # likewise where the cost model speaks against it; doubled where it was right
_ASKED_AGAIN = 8  # plain rounds until a trial that could not be paid is thought of again
_REFERENCE = 4  # plain rounds of a reference behind the first, which pays for the change of width
_FIRST_REFERENCE, _NEXT_REFERENCE, _LAST_REFERENCE = 4, 48, 384  # drafted rounds before it
_STALE = 12  # drafted rounds after which what looks like a loss needs a new reference first
_CHANGED = 1.2  # ratio of plain times at which the earlier ones no longer count
_KEPT = 12

Stretch = Literal["", "trial", "reference"]


class Guard:
    """Of one drafter-target pair in one kind of sampling, over all its answers."""

    def __init__(self, plain: bool = False) -> None:
        self.plain_only = plain  # drafting was ended because it lost
        self.expected = True  # to pay, by the cost model
        self.vouched = False  # drafting goes on although the cost model would not: a trial of it was won
        self.stretch: Stretch = ""
        self.measured = Ratio()
        self.credit = _OPENING  # plain rounds that trials may lose
        self.due = False  # a trial, if its price is right
        self._price = _LOSS  # what trials have lost lately
        self._reading = _LOSS  # plain rounds that the drafter's reading may take at the next one
        self._wanted = 0.0  # what the next one would take
        self._failed = 0  # trials in a row
        self._gap = _GAP if plain else _REST_GAP
        self._since = 0  # plain rounds since the last trial
        self._plain: deque[float] = deque(maxlen=_KEPT)
        self._times: deque[float] = deque(maxlen=9)  # of drafted rounds, to know a stall by
        self._recent: deque[tuple[int, float]] = deque(maxlen=64)  # drafted rounds since nothing was lost
        self._c = 0.0  # seconds of a plain round; 0 while unknown
        self._left = 0  # of the reference
        self._period = _FIRST_REFERENCE
        self._drafted = 0  # rounds since the last reference
        self._lost = self._lost_before = 0.0  # now, and at the last reference
        self._tried = Ratio()  # in the trial alone
        self._net = 0.0  # saved since drafting began
        self._score, self._rounds = 0.0, 0  # of the trial's counted rounds
        self._cold = 0.0  # saved in its first ones, but for reading what was missed
        self._warm = 0
        self._fresh = True  # nothing was decided yet: the first loss is nobody's debt

    # what a round may do

    @property
    def blocks(self) -> bool:
        """No drafting in this round."""
        return self.stretch == "reference" or (self.plain_only and self.stretch != "trial")

    @property
    def insists(self) -> bool:
        """Drafting in this round, whatever the cost model expects of it."""
        return self.stretch == "trial" or self.vouched

    @property
    def plain_seconds(self) -> float | None:
        """What a plain round takes now, as far as it was measured."""
        return steady(self._plain) if self._plain else self._c or None

    def begin_trial(self, catching_up: float) -> bool:
        """Start one if its price, and the `catching_up` seconds of the drafter's reading, can be paid."""
        if len(self._plain) >= _REFERENCE:
            self._c = steady(self._plain)
        reading = catching_up / self._c if self._c else 0.0
        saved = min(reading, self._reading)
        self._wanted = self._price + reading - saved
        if not self._c or self.credit < self._wanted:
            self.due, self._since = False, max(0, self._since - _ASKED_AGAIN)
            return False
        self._tried = Ratio()
        self.stretch, self.due = "trial", False
        self._score, self._cold, self._net = 0.0, 0.0, saved
        self._reading -= saved
        self._rounds, self._warm = 0, _WARM
        return True

    def expects(self, gain: bool) -> None:
        """What the cost model thinks of drafting; where it agrees, nobody needs to vouch for it."""
        self.expected = gain
        self.vouched = self.vouched and not gain

    def retry(self) -> None:
        """The drafter has become another one: what was found about the one before may no longer hold."""
        self.credit, self._gap = max(self.credit, _OPENING), _GAP
        self._since, self._failed = _GAP, 0
        self._fresh = True

    def began(self) -> None:
        """An answer begins: its first drafted rounds are cold."""
        self._warm = max(self._warm, _WARM)

    # what rounds took

    def plain(self, seconds: float) -> None:
        """A plain round that was not the first behind a wider pass."""
        self._plain.append(seconds)
        if self.stretch == "reference":
            self._left -= 1
            if not self._left:
                self._compare()
            return
        share = _SHARE if self._failed < _OFTEN else _LATER_SHARE
        self._reading = min(self._reading + _READING, _CREDIT)
        self.credit = min(self.credit + share, max(_CREDIT, self._wanted))
        self._since += 1
        if self._since >= self._gap and self.credit >= self._wanted:
            self.due = True
        elif self._since % _KEPT == 0 and self.plain_only:
            self._notice()

    def _notice(self) -> None:
        """Plain rounds take another time than when drafting last lost: what else the machine does has changed, and
        with it perhaps what drafting is worth."""
        now = steady(self._plain)
        if self._c and not 1 / _CHANGED < now / self._c < _CHANGED:
            self._c, self._failed = now, 0
            self.credit = max(self.credit, self._price + _LOSS)
            self._since = self._gap

    def drafted(self, tokens: int, seconds: float, catching_up: float = 0.0) -> None:
        """A round with drafting; catching_up: about so many of its seconds went into reading what was missed."""
        self._times.append(seconds - catching_up)
        seconds = min(seconds, catching_up + STALL * median(self._times))
        cold, self._warm = catching_up > 0 or self._warm > 0, max(0, self._warm - 1)
        if self.stretch == "trial":
            self._try(tokens, seconds / self._c, catching_up / self._c, cold)
            return
        self._drafted += 1
        if not cold:
            self._recent.append((tokens, seconds))
        if self._c:
            saved = tokens - seconds / self._c
            self._net += saved
            if not cold:
                self._weigh(tokens, saved)
        if not self.stretch and self._drafted >= self._period:
            self._refer()

    def _weigh(self, tokens: int, saved: float) -> None:
        """CUSUM: L = max(0, L - saved); drafting ends where L reaches the limit."""
        self.measured.add(tokens, tokens - saved)
        self._lost = max(0.0, self._lost - saved)
        if not self._lost:
            self._recent.clear()
        limit = self._limit()
        if self._drafted < _STALE:
            if self._lost >= limit or self.measured.interval()[1] < 1.0:
                self._end()
        elif self._lost >= min(limit, max(0.5 * limit, self._lost_before + 0.25 * limit)):
            self._refer()

    def _limit(self) -> float:
        if self.measured.interval()[0] > 1.0:
            return _SURE_LIMIT
        return _VOUCHED_LIMIT if self.vouched else _LIMIT

    def _end(self) -> None:
        """Drafting loses. Where only a trial vouched for it, the cost model has its way again first."""
        self.plain_only = self.expected or not self.vouched
        self.vouched = False
        if not self._fresh:
            self.credit = max(self.credit + min(self._net, 0.0), _FLOOR)
        self._fresh = False
        self._gap, self._since = _GAP, 0
        self._lost = self._lost_before = self._net = 0.0
        self._recent.clear()

    def _refer(self) -> None:
        self.stretch, self._left = "reference", _REFERENCE
        self._drafted = 0
        self._plain.clear()

    def _compare(self) -> None:
        """A reference is complete: what was drafted since nothing was lost is counted by what plain rounds take now."""
        self.stretch = ""
        now, before = steady(self._plain), self._c
        near = before and 1 / _CHANGED < now / before < _CHANGED
        self._c = 0.5 * (now + before) if near else now
        self._lost, recent = 0.0, list(self._recent)
        for tokens, seconds in recent:
            self._lost = max(0.0, self._lost + seconds / self._c - tokens)
            if not before:
                self.measured.add(tokens, seconds / self._c)
        self._warm = 1
        good = near and self.measured.interval()[0] > 1.0
        self._period = min(2 * max(self._period, _NEXT_REFERENCE), _LAST_REFERENCE) if good else _NEXT_REFERENCE
        self._lost_before = self._lost
        if self._lost >= self._limit() or self.measured.interval()[1] < 1.0:
            self._end()

    def _try(self, tokens: int, took: float, catching_up: float, cold: bool) -> None:
        """SPRT: S = sum of saved; the trial is lost at S <= -_LOSS, won at S >= _WIN."""
        saved = tokens - took
        self._net += saved
        if cold:
            self._cold += saved + catching_up
            if self._cold <= -_HOPELESS:
                self._lose_trial()
            return
        self._score += saved
        self._rounds += 1
        self.measured.add(tokens, took)
        self._tried.add(tokens, took)
        if self._score <= -_LOSS or (self._rounds >= _MOST and self._score < 0.5 * _WIN):
            self._lose_trial()
        elif self._rounds >= _LEAST and (self._score >= _WIN or self._rounds >= _MOST):
            self._win_trial()

    def _lose_trial(self) -> None:
        self.stretch = ""
        self.credit = max(self.credit + min(self._net, 0.0), _FLOOR)
        self._price += 0.3 * (max(-self._net, 0.5) - self._price)
        self._failed += 1
        self._gap = _GAP if self.plain_only else min(2 * self._gap, _LONGEST_GAP)
        self._since = 0

    def _win_trial(self) -> None:
        self.stretch, self.plain_only, self.vouched = "", False, True
        self.measured, self._failed = self._tried, 0
        self._lost = self._lost_before = 0.0
        self._recent.clear()
        self._gap, self._since = _REST_GAP, 0
        self._drafted, self._period = 0, _NEXT_REFERENCE

    # what to say and to keep

    @property
    def lost(self) -> float | None:
        """The share of its speed that drafting lost before it was ended; None if it was not, or hardly lost any."""
        lost = 1.0 - self.measured.ratio
        return lost if self.plain_only and lost > 0.005 else None

    @property
    def words(self) -> str:
        """The state in plain words."""
        if self.stretch == "trial":
            return "trying again"
        if not self.plain_only:
            return "drafting"
        return f"plain: drafting lost {self.lost:.0%}" if self.lost else "plain: drafting did not pay"
