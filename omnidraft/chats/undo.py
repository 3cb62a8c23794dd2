"""The conversations deleted last, for whoever did not mean it.

They are kept in memory only, until others are deleted or the program ends: what was deleted leaves the file as ever.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable

from omnidraft.chats.records import Conversation, Message
from omnidraft.chats.store import ChatStore


class LastDeleted:
    """Methods may be called from any thread."""

    def __init__(self, store: ChatStore) -> None:
        self._store = store
        self._kept: list[tuple[Conversation, list[Message]]] = []
        self._pictures: dict[str, str] = {}
        self._mark = ""  # of this deletion, by which it is taken back
        self._lock = threading.Lock()

    def delete(self, chats: Iterable[str]) -> str:
        """Delete conversations and keep them instead of those before; by what to take it back. StorageError if one is
        not there."""
        with self._lock:
            self._kept = [self._store.snapshot(chat) for chat in chats]
            self._pictures = self._store.shown_pictures(self._kept)
            self._store.delete(*(chat.id for chat, _ in self._kept), later=True)
            self._mark = secrets.token_hex(8)
            return self._mark

    def bring_back(self, mark: str) -> list[Conversation]:
        """Store them as they were; none if that is done, others were deleted or the program was started since."""
        with self._lock:
            if mark != self._mark:
                return []
            kept, pictures = self._kept, self._pictures
            self._kept, self._pictures = [], {}
            return self._store.insert(kept, pictures)

    def forget(self) -> None:
        with self._lock:
            self._kept, self._pictures = [], {}
