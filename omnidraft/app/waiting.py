"""Who waits for a turn with a session, pages and clients of the API alike: first come, first served, and only so many.

Knows no answers, no conversations and no clients.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnidraft.errors import ModelError, OmniDraftError

LONGEST = 32  # who comes when so many wait is better told to come back
LOOK_EVERY = 0.05  # seconds between looks of those who wait


class StillAnswering(ModelError):
    """An answer is being written, so no other can begin and no model can change."""

    def __init__(
        self, words: str = "An answer is still being written, here or elsewhere; stop it or wait for it."
    ) -> None:
        super().__init__(words)


class QueueFull(OmniDraftError):
    """Too many wait; `seconds` says when to come again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"Too many requests are waiting for this model; try again in {self.seconds} seconds.")


class Place:
    """In the queue. chat: the conversation whose question waits; None: somebody else."""

    def __init__(self, chat: str | None) -> None:
        self.chat = chat


class RequestQueue:
    """The places taken, and how long a turn took lately. It contains the conversations whose questions wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: deque[Place] = deque()
        self._turn, self._last = 1.0, 0.0  # seconds between turns, and when the last began

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, chat: str | None) -> bool:
        with self._lock:
            return chat is not None and any(place.chat == chat for place in self._places)

    @contextmanager
    def place(self, again: bool = False) -> Iterator[Callable[[], bool]]:
        """A place at the end until the block ends, which is when one's turn has begun or is given up; what tells
        whether it is the first by now. QueueFull if too many wait, unless one was let in before (`again`)."""
        own = self.enter(again=again)
        try:
            yield lambda: self.is_first(own)
        finally:
            self.leave(own)

    def enter(self, chat: str | None = None, again: bool = False) -> Place:
        """As `place`, until `leave`, or `take_back` of its conversation. StillAnswering if that waits already."""
        own = Place(chat)
        with self._lock:
            if chat is not None and any(place.chat == chat for place in self._places):
                raise StillAnswering("A question of this conversation waits already; take it back or wait for it.")
            if len(self._places) >= LONGEST and not again:
                raise QueueFull(self._turn * len(self._places) / 2)
            self._places.append(own)
        return own

    def holds(self, own: Place) -> bool:
        """Whether it was neither left nor taken back."""
        with self._lock:
            return own in self._places

    def is_first(self, own: Place) -> bool:
        with self._lock:
            return bool(self._places) and self._places[0] is own

    def leave(self, own: Place) -> None:
        with self._lock:
            if own in self._places:
                if self._places[0] is own:
                    self._note_turn()
                self._places.remove(own)

    def take_back(self, chat: str | None = None) -> bool:
        """Whether a question of this conversation waited, which does not any more; None: of any."""
        with self._lock:
            kept = [place for place in self._places if place.chat is None or chat not in (None, place.chat)]
            taken = len(kept) < len(self._places)
            self._places = deque(kept)
            return taken

    def _note_turn(self) -> None:
        now = time.monotonic()
        self._turn += 0.2 * (min(now - self._last, 60.0) - self._turn)
        self._last = now
