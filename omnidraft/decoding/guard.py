"""Measured time has the last word: ends a way of proposing that loses against plain rounds, and tries it again.

Everything is counted in *saved plain rounds*: a round of s seconds that made n tokens saved n - s / c, c being what a
plain round takes at that time: from plain rounds close by, and where there are none from a short plain stretch now and
then (a *reference*). Two sequential tests act on the sum of what was saved (Page 1954, CUSUM: the way pays no more;
Wald 1945, SPRT: a *trial* of it pays), so that a wrong decision costs a bounded number of tokens, however wrong
the estimates are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import fmean, median

# Plain rounds that a way may lose before it ends, twice as many where it paid so far: unlucky streaks stay below it.
_LIMIT = 6.0
# Saved plain rounds that decide a trial: of drafters that lose a quarter of a round each, one in nine gets through.
_WIN, _LOSS = 3.0, 2.0
_REFERENCE = 4  # plain rounds whose median is known within a few percent
_CHANGED = 1.2  # ratio of plain times beyond which the machine does something else, and earlier findings are void
STALL = 3.0  # times the median, what a longer round is counted as: it was interrupted
# Rounds between tries double from the first figure to the last: an early mistake is soon mended, a settled one cheap.
_FIRST, _LAST = 4, 512
# Of the time between two tries, what they may lose together; and the plain rounds that the first ones may, as nothing
# is known yet.
_SHARE, _OPENING = 0.005, 8.0


class Retry:
    """When what was left is tried again: at intervals that double while that fails, out of a share of the time."""

    def __init__(self, longest: int = _LAST) -> None:
        self.interval, self.credit = _FIRST, _OPENING
        self._longest = longest
        self._since = 0.0

    def wait(self, rounds: float, price: float = 0.0) -> None:
        """So many rounds went by without; what is saved for the next try goes up to its `price`."""
        self._since += rounds
        self.credit = max(min(self.credit + _SHARE * rounds, max(_OPENING, price)), self.credit)

    def rounds_left(self, price: float) -> float:
        """Until the next try, which may lose `price` plain rounds; 0: now."""
        return max(self.interval - self._since, (price - self.credit) / _SHARE, 0.0)

    def failed(self, saved: float = 0.0) -> None:
        """Tried in vain; saved: plain rounds, negative if it lost some."""
        self.credit, self._since = self.credit + saved, 0.0
        self.interval = min(2 * self.interval, self._longest)

    def again(self, *, at_once: bool = False) -> None:
        """It may be another matter by now: begin with short intervals."""
        self.interval, self._since = _FIRST, float(_FIRST) if at_once else 0.0


class Source:
    """One way of proposing against plain rounds: "on", "off", or on "trial"."""

    def __init__(self, off: bool = False) -> None:
        self.state = "off" if off else "on"
        self.retry = Retry()
        self.lost = 0.0  # plain rounds, since it last paid
        self.recent: deque[tuple[int, float]] = deque(maxlen=64)  # tokens and seconds of the rounds since
        self.gained, self.took = 4.0, 4.0  # tokens, and what they took in plain rounds; fading
        self._score, self._net = 0.0, 0.0  # of the trial
        self._times: deque[float] = deque(maxlen=9)

    def steady(self, seconds: float) -> float:
        """The seconds of a round, cut to what an uninterrupted one may take."""
        self._times.append(seconds)
        return min(seconds, STALL * median(self._times))

    @property
    def has_lost(self) -> bool:
        return self.lost >= (2 * _LIMIT if self.gained > self.took else _LIMIT)

    def begin_trial(self) -> None:
        """Of what was ended; the rounds to come decide."""
        self.state, self._score, self._net = "trial", 0.0, 0.0

    def took_round(self, tokens: int, seconds: float, c: float, cold: bool) -> None:
        saved = tokens - seconds / c
        if self.state == "trial":
            self._try(saved, cold)
        if not cold:
            self.gained, self.took = 0.985 * self.gained + tokens, 0.985 * self.took + seconds / c
            self.lost = max(0.0, self.lost - saved)
            self.recent.append((tokens, seconds))
            if not self.lost:
                self.recent.clear()

    def recount(self, c: float) -> None:
        """By what a plain round takes now."""
        self.lost = 0.0
        for tokens, seconds in self.recent:
            self.lost = max(0.0, self.lost + seconds / c - tokens)

    def end(self) -> None:
        self.state, self.lost = "off", 0.0
        self.recent.clear()
        self.retry.again()

    def _try(self, saved: float, cold: bool) -> None:
        """SPRT: S = sum of saved; the trial is lost at S <= -_LOSS, won at S >= _WIN."""
        self._net += saved
        self._score += 0.0 if cold else saved
        if self._score <= -_LOSS or self._net <= -2 * _LOSS:
            self.state = "off"
            self.retry.failed(self._net)
        elif self._score >= _WIN:
            self.state, self.lost = "on", 0.0
            self.recent.clear()


class Guard:
    """Of one drafter-target pair in one kind of sampling, over all its answers."""

    def __init__(self, plain: bool = False) -> None:
        self.draft, self.copy = Source(off=plain), Source()
        self.c = 0.0  # seconds of a plain round; 0 while unknown
        self._plain: deque[float] = deque(maxlen=3 * _REFERENCE)
        self._left = 0  # of the reference
        self._period = _FIRST  # rounds of other kinds before it
        self._unheard = 0  # of them since the last plain one

    @property
    def references(self) -> int:
        """Plain rounds that are wanted now, to compare with."""
        return self._left

    def plain(self, seconds: float, rounds: int = 1) -> bool:
        """Plain rounds, `seconds` each. Returns whether the machine does something else now."""
        before = self.c
        self._plain.extend([seconds] * min(rounds, 3 * _REFERENCE))
        self._unheard = 0
        if self._left:
            self._left = max(0, self._left - rounds)
            if not self._left:
                self._compare()
        elif len(self._plain) >= _REFERENCE:
            now = steady(self._plain)
            changed = not self.c or not 1 / _CHANGED < now / self.c < _CHANGED
            if changed and self.draft.state == "off":
                self.draft.retry.again()
                self.draft.retry.credit = max(self.draft.retry.credit, 2 * _OPENING)
            if changed or self.draft.state != "off":
                self.c = now
        return bool(before) and not 1 / _CHANGED < self.c / before < _CHANGED

    def proposed(self, source: Source, tokens: int, seconds: float, reading: float = 0.0) -> None:
        """A round that `source` was tried in; so many of its seconds went into reading what the drafter missed."""
        seconds = source.steady(seconds - reading)
        cold = reading > 0  # decides nothing
        self._unheard += 1
        if self.c:
            source.took_round(tokens, seconds + (reading if source.state == "trial" else 0.0), self.c, cold)
        elif not cold:
            source.recent.append((tokens, seconds))
        stale = self._unheard > 3 * _REFERENCE
        if source.state == "on" and source.has_lost and not stale:
            source.end()
        elif source.state == "on" and (self._unheard >= self._period or source.has_lost):
            self._left = _REFERENCE
            self._plain.clear()

    def _compare(self) -> None:
        """A reference is complete: what was proposed since nothing was lost is counted anew."""
        now = steady(self._plain)
        near = 1 / _CHANGED < now / (self.c or now) < _CHANGED
        self.c = 0.5 * (now + (self.c or now)) if near else now
        for source in (self.draft, self.copy):
            source.recount(self.c)
            if source.state == "on" and source.has_lost:
                source.end()
        pays = any(source.gained > source.took for source in (self.draft, self.copy))
        usual = 64 if pays else 32  # a reference costs what proposing earns
        self._period = min(2 * max(self._period, 16), _LAST) if near and pays else usual

    # what to say and to keep

    def retry(self) -> None:
        """The drafter has become another one: what was found about the one before may no longer hold."""
        self.draft.retry = Retry()

    @property
    def plain_only(self) -> bool:
        """Drafting was ended because it lost."""
        return self.draft.state == "off"

    @property
    def lost(self) -> float | None:
        """The share of its speed that drafting lost before it was ended; None if it was not, or hardly lost any."""
        lost = 1.0 - self.draft.gained / self.draft.took
        return lost if self.plain_only and lost > 0.005 else None

    @property
    def words(self) -> str:
        """The state in plain words."""
        if self.draft.state == "trial":
            return "trying again"
        if not self.plain_only:
            return "drafting"
        return f"plain: drafting lost {self.lost:.0%}" if self.lost else "plain: drafting did not pay"


def steady(times: Sequence[float]) -> float:
    """Their mean, interrupted rounds counted as `STALL` times the median."""
    longest = STALL * median(times)
    return fmean(min(t, longest) for t in times)
