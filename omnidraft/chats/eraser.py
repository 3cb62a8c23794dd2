"""What was deleted leaves the file of conversations: at once, or some quiet seconds later, so that nobody waits for it.

The file notes that it must be cleaned until that is done, so that a kill leaves it to the next opening.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from omnidraft.chats.search import MessageIndex
from omnidraft.errors import StorageError
from omnidraft.storage import sqlite
from omnidraft.storage.database import Database, erase_deleted

QUIET_SECONDS = 2.0  # deletions in a row are cleaned up behind at once
_NOT_NOW: tuple[type[Exception], ...] = (*sqlite.OperationalError, StorageError)


class Eraser:
    """reopen: opens the file on a connection of its own, so that it is cleaned while `db` is used."""

    def __init__(self, db: Database, index: MessageIndex, reopen: Callable[[], None]) -> None:
        self._db, self._index, self._reopen = db, index, reopen
        self._changed = threading.Condition()
        self._when: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def due(self) -> bool:
        """Whether the file is still to be cleaned."""
        return bool(self._db.all("SELECT 1 FROM chores WHERE name = 'erase'"))

    def note(self) -> None:
        """Something is being deleted, in the transaction that is open."""
        self._db.run("INSERT OR IGNORE INTO chores VALUES ('erase')")

    def erase(self, later: bool = False) -> bool:
        """Write the file anew without what was deleted. False if another program reads it; see `ChatStore.delete`."""
        if later:
            self._index.forget()
            self._begin()
            return True
        try:
            with self._db.changing():
                self._index.rebuild()
            if not erase_deleted(self._db.connection):
                return False
            self._db.run("DELETE FROM chores WHERE name = 'erase'")
        except _NOT_NOW:  # another program holds the file, or the disk is full
            return False
        return True

    def finish(self) -> None:
        """Have done now what was to be done later. Not with the lock of `db` held: the thread needs it."""
        with self._changed:
            thread = self._thread
            if self._when is not None:
                self._when = 0.0
                self._changed.notify_all()
        if thread is not None:
            thread.join()

    def ready(self, later: bool = False) -> None:
        """Before a deletion, with the lock of `db` not held: what is to be erased at once waits for what was not."""
        if not later:
            self.finish()

    def _begin(self) -> None:
        with self._changed:
            self._when = time.monotonic() + QUIET_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="eraser", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while self._waited():
            with self._db.patient():
                self._reopen()

    def _waited(self) -> bool:
        """Wait until it is time; False if nothing is to be done any more."""
        with self._changed:
            if self._when is None:
                self._thread = None
                return False
            while (left := self._when - time.monotonic()) > 0:
                self._changed.wait(left)
            self._when = None
            return True
