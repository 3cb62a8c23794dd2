"""Questions of a profile's pages that wait for another answer to end, in the order of asking. Knows no conversation."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnidraft.errors import OmniDraftError


class Waiting:
    """One question a conversation; each is kept with what begins its answer, and says whether it did, until then."""

    def __init__(self) -> None:
        self._begins: dict[str, Callable[[], bool]] = {}
        self._lock, self._beginning = threading.Lock(), threading.Lock()

    def __contains__(self, chat: str | None) -> bool:
        return chat in self._begins

    def add(self, chat: str, begin: Callable[[], bool]) -> None:
        with self._lock:
            self._begins[chat] = begin

    def take_back(self, chat: str) -> bool:
        """Whether one waited, which does not any more."""
        with self._lock:
            return self._begins.pop(chat, None) is not None

    def begin_next(self) -> None:
        """Begin the first answer that can be, unless that is being done."""
        while self._begins and self._beginning.acquire(blocking=False):
            chat = next(iter(self._begins), "")
            try:
                if chat in self and self._begins[chat]():
                    return
            finally:
                self.take_back(chat)
                self._beginning.release()

    def clear(self) -> None:
        with self._lock:
            self._begins.clear()


# Who waits for a turn with a session: first come, first served, and only so many. Knows no answers and no clients.


LONGEST = 32  # who comes when so many wait is better told to come back


class QueueFull(OmniDraftError):
    """Too many wait; `seconds` says when to come again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"Too many requests are waiting for this model; try again in {self.seconds} seconds.")


class RequestQueue:
    """The places taken, and how long a turn took lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: deque[object] = deque()
        self._turn, self._last = 1.0, 0.0  # seconds between turns, and when the last began

    @contextmanager
    def place(self, again: bool = False) -> Iterator[Callable[[], bool]]:
        """A place at the end until the block ends, which is when one's turn has begun or is given up; what tells
        whether it is the first by now. QueueFull if too many wait, unless one was let in before (`again`)."""
        own = object()
        with self._lock:
            if len(self._places) >= LONGEST and not again:
                raise QueueFull(self._turn * len(self._places) / 2)
            self._places.append(own)
        try:
            yield lambda: self._places[0] is own
        finally:
            with self._lock:
                if self._places[0] is own:
                    self._note_turn()
                self._places.remove(own)

    def _note_turn(self) -> None:
        now = time.monotonic()
        self._turn += 0.2 * (min(now - self._last, 60.0) - self._turn)
        self._last = now
