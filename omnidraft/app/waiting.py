"""Questions of a profile's pages that wait for another answer to end, in the order of asking. Knows no conversation."""

from __future__ import annotations

import threading
from collections.abc import Callable


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
