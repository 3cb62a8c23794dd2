"""What something usually takes, and when something else is tried again. Knows not what."""

from __future__ import annotations

from collections import deque
from statistics import median_low

# Samples of a median: three interruptions among seven, which only add time, do not move it ...
WINDOW = 7
# ... and so many in a row renew it.
RENEWING = WINDOW // 2 + 1
# How long to wait for another try, for all that one may lose: the first time, and in the end (half a percent).
FIRST, LAST = 4.0, 200.0


class Usual:
    """The median of the latest samples."""

    def __init__(self, *samples: float) -> None:
        self._latest = deque(samples, maxlen=WINDOW)
        self.value = median_low(samples)

    @property
    def settled(self) -> bool:
        """Whether one more sample would hardly move it."""
        return len(self._latest) >= RENEWING

    def add(self, *samples: float) -> None:
        self._latest.extend(samples)
        self.value = median_low(self._latest)


class Patience:
    """When something is tried again that did not pay the last time: after each try in vain it takes twice as long, for
    as much as a try may lose, until all tries lose half a percent. waited: since the last one, as prices are."""

    def __init__(self, times: float = FIRST) -> None:
        self.times, self.waited = times, 0.0

    def left(self, price: float) -> float:
        """How long until a try that may lose `price`; 0: now."""
        return max(0.0, self.times * price - self.waited)

    def tried(self) -> None:
        self.times, self.waited = min(2 * self.times, LAST), 0.0

    def renew(self) -> None:
        """It paid, or may do so now: the next try is soon."""
        self.times = FIRST
