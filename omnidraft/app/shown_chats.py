"""Which conversation the pages of a profile show when they arrive, and with which files. Knows no model.

Its lock is its own: conversations are shown and changed while a model is being loaded.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator

from omnidraft.chats import ChatStore, Conversation, PictureFile, TextFile
from omnidraft.chats.titles import UNTITLED
from omnidraft.errors import StorageError

_LATEST = 50  # conversations looked at for an empty one


class ShownChats:
    """The profile's conversations and the one shown last. Methods may be called from any thread.

    unsent: the files of messages that are being written, by their conversation; nowhere but here.
    """

    def __init__(self, store: ChatStore) -> None:
        self.store = store
        self.unsent: dict[str, list[TextFile | PictureFile]] = {}
        self._current: str | None = None
        self._showing = threading.RLock()
        self._asked: list[str] = []  # conversations a question was asked in that waits for its model

    def chat(self, wanted: str | None = None) -> Conversation:
        """The conversation an arriving page shows: the wanted one, else the one shown last, the latest, or a new one.

        What acts on a conversation asks `show` for it, which takes no other in its place.
        """
        with self._showing:
            for name in (wanted, self._current):
                if name is not None:
                    with contextlib.suppress(StorageError):
                        return self.show(name)
            latest = self.store.latest()
            return self.show(latest.id) if latest else self.new_chat()

    def show(self, chat: str) -> Conversation:
        """Remember `chat` as the one a reload comes back to; StorageError if it is not there."""
        found = self.store.get(chat)
        self._current = found.id
        return found

    def new_chat(self) -> Conversation:
        """An empty conversation; one that is empty already is taken, and with it what was begun there, also while an
        answer that grows elsewhere makes that one the latest."""
        with self._showing:
            unnamed = (chat for chat in self.store.conversations(_LATEST) if chat.title == UNTITLED and not chat.named)
            free = (chat.id for chat in unnamed if chat.id not in self._asked and not self.store.path(chat.id))
            return self.show(next(free, None) or self.store.create().id)

    def drop_unsent(self, kept: Collection[str]) -> None:
        """Files are forgotten that stand in none of these conversations."""
        for chat in set(self.unsent) - set(kept):
            self.unsent.pop(chat, None)

    @contextlib.contextmanager
    def asked(self, chat: str) -> Iterator[None]:
        """A question is asked there: it is no empty conversation any more, though nothing is stored yet."""
        self._asked.append(chat)
        try:
            yield
        finally:
            self._asked.remove(chat)
