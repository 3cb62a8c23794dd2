"""How often and by how many a password may be tried: waits after wrong ones, and few hashes at a time.

A wait holds for one name from one address, so that nobody who knows a name can lock out the person who has it; an
address that tries many names waits as a whole, but for the names that have signed in from there. Knows no passwords.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from omnidraft.errors import OmniDraftError

TRIES = 5  # wrong passwords before the first wait
TRIES_OF_ADDRESS = 20  # the same, whatever the names
LONGEST = 30.0  # seconds
FORGOTTEN = 900.0  # seconds after which nothing is held against anybody
REMEMBERED = 10_000  # failures kept at most: addresses and names are the client's to choose
AT_ONCE = 2  # hashes; each takes 16 MB
WAITING = 12  # for their turn
WAITING_OF_ADDRESS = 3


class TooManyTries(OmniDraftError):
    """Not even looked at; `seconds` says when to try again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"Too many tries to sign in; wait {self.seconds} seconds and try again.")


class Throttle:
    """Wrong passwords, by address and name and by address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str | None], tuple[int, float]] = OrderedDict()  # count, time of last
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who has signed in from where

    def wait(self, address: str, name: str) -> float:
        """Seconds until a password may be tried; 0 for now."""
        with self._lock:
            own = self._left((address, name), TRIES)
            known = (address, name) in self._known
            return own if known else max(own, self._left((address, None), TRIES_OF_ADDRESS))

    def wrong(self, address: str, name: str) -> None:
        with self._lock:
            for key in ((address, name), (address, None)):
                count, last = self._failures.pop(key, (0, 0.0))
                if time.monotonic() - last > FORGOTTEN:
                    count = 0
                self._failures[key] = (count + 1, time.monotonic())
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def right(self, address: str, name: str) -> None:
        with self._lock:
            self._failures.pop((address, name), None)
            self._known[address, name] = None
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _left(self, key: tuple[str, str | None], tries: int) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        if count < tries:
            return 0.0
        return max(0.0, last + min(2.0 ** min(count - tries, 10), LONGEST) - time.monotonic())


class Lanes:
    """Lets few through at once and few wait, of each address fewer, so that many tries of one leave room for others."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._inside: Counter[str] = Counter()

    @contextmanager
    def turn(self, address: str) -> Iterator[None]:
        """TooManyTries if there is no room to wait."""
        with self._lock:
            if self._inside[address] >= WAITING_OF_ADDRESS or self._inside.total() >= WAITING:
                raise TooManyTries(1)
            self._inside[address] += 1
        try:
            with self._free:
                yield
        finally:
            with self._lock:
                self._inside[address] -= 1
                if not self._inside[address]:
                    del self._inside[address]
