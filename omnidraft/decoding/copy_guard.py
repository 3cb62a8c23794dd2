"""Leaves copies of earlier text out where they lose against plain rounds, by measured time."""

from __future__ import annotations

from collections import deque
from statistics import median

from omnidraft.decoding.ratio import STALL

_LIMIT, _LATER_LIMIT = 6.0, 2.0  # plain rounds that copies may lose, and once they have
_WIN = 2.5  # saved plain rounds that make up for it
_UNKNOWN, _STALE = 8, 192  # copies without a plain round to compare with: while none is known, and later
_REFERENCE = 4  # rounds without copies then
_PAUSE, _LONGEST_PAUSE = 64, 1024  # rounds without copies behind a loss, doubled each time


class CopyGuard:
    """Of one drafter-target pair in one kind of sampling: a pause where copies lose, twice as long each time; behind it
    they may lose little before the next one."""

    def __init__(self) -> None:
        self._lost = self._won = 0.0
        self._limit, self._pause = _LIMIT, _PAUSE
        self._times: deque[float] = deque(maxlen=9)
        self.resting = 0  # rounds of any other kind before copies are proposed again
        self._unpaired = 0  # copies since the last plain round

    def passed(self, plain: bool) -> None:
        """A round without a copy."""
        self.resting -= self.resting > 0
        if plain:
            self._unpaired = 0

    def copied(self, tokens: int, seconds: float, plain: float | None) -> None:
        """A round that proposed a copy; plain: what a plain round takes, None if unknown. CUSUM as in `Guard`."""
        self._times.append(seconds)
        self._unpaired += 1
        if self._unpaired >= (_UNKNOWN if plain is None else _STALE):
            self.resting, self._unpaired = _REFERENCE, 0
        if plain is None:
            return
        saved = tokens - min(seconds, STALL * median(self._times)) / plain
        self._lost = max(0.0, self._lost - saved)
        self._won = self._won + saved if not self._lost else 0.0
        if self._lost >= self._limit:
            self.resting, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
            self._lost, self._limit = 0.0, _LATER_LIMIT
        elif self._won >= _WIN:
            self._limit, self._pause = _LIMIT, _PAUSE
