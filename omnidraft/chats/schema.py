"""The tables of a conversation store. Migrations are only ever appended; a released one is never edited.

Messages form a tree by `parent`. Among the messages with one parent exactly one is active: following the active ones
from the first turn gives the conversation as shown. `seq` orders siblings by age.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeVar

from omnidraft.chats.records import Conversation, Message, sound, whole_text
from omnidraft.chats.search import MessageTexts
from omnidraft.errors import SettingsError, StorageError
from omnidraft.settings.config import SamplingSettings, from_dict, to_dict
from omnidraft.storage import database
from omnidraft.storage.database import Database, Migration, erase_deleted

APPLICATION_ID = 0x4F44_4331  # "ODC1" in the SQLite header

MIGRATIONS: tuple[Migration, ...] = (
    (
        "conversations and messages",
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL,
            named INTEGER NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            system TEXT NOT NULL,
            sampling TEXT,
            target TEXT,
            speculation INTEGER NOT NULL
        );
        CREATE TABLE messages (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            chat TEXT NOT NULL REFERENCES conversations(id),
            parent TEXT REFERENCES messages(id),
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            created REAL NOT NULL,
            active INTEGER NOT NULL,
            meta TEXT NOT NULL
        );
        CREATE INDEX messages_by_parent ON messages(chat, parent);
        CREATE INDEX messages_by_parent_alone ON messages(parent);
        CREATE UNIQUE INDEX one_active_version ON messages(chat, ifnull(parent, '')) WHERE active;
        """,
    ),
    (
        "what is still to be done",
        # 'erase': a deletion was killed before the file was cleaned.
        "CREATE TABLE chores (name TEXT PRIMARY KEY);",
    ),
    (
        "conversations kept at the top of the list",
        "ALTER TABLE conversations ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;",
    ),
    (
        "presets and prompts of one's own",
        # kind: 'preset' or 'prompt'; body: its values as JSON.
        "CREATE TABLE library (kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, name));",
    ),
    (
        "tags on conversations",
        "ALTER TABLE conversations ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';",
    ),
    (
        "functions that a model may ask for",
        # JSON: the names of those that run without a question; NULL: none are offered.
        "ALTER TABLE conversations ADD COLUMN tools TEXT;",
    ),
    (
        "conversations put away",
        "ALTER TABLE conversations ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;",
    ),
    (
        "pictures in messages",
        # data: base64 of a PNG or JPEG file; digest: the SHA-256 of that file, by which messages name it.
        "CREATE TABLE pictures (digest TEXT PRIMARY KEY, data TEXT NOT NULL);",
    ),
    (
        "no index of words beside the messages",
        "DROP TABLE IF EXISTS message_index; DELETE FROM chores; INSERT INTO chores VALUES ('erase');",
    ),
)


# Between table rows and records: columns are named as fields, and most hold their values as they are.


R = TypeVar("R", Conversation, Message)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _sampling(text: str | None) -> SamplingSettings | None:
    """A stored preset; what this version's ranges refuse falls back to the profile's settings."""
    try:
        return None if text is None else from_dict(SamplingSettings, json.loads(text))[0]
    except SettingsError:
        return None


_STORED: dict[str, Callable[[Any], Any]] = {
    "system": whole_text,
    "sampling": lambda sampling: _json(sampling and to_dict(sampling)),
    "tools": lambda tools: _json(tools and list(tools)),
    "meta": _json,
}
READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("named", "speculation", "pinned", "archived", "active"), bool),
    "sampling": _sampling,
    "tools": lambda text: text and tuple(json.loads(text)),
    "meta": lambda text: sound(json.loads(text)),
}


def conversations(db: Database, rest: str, values: Any = ()) -> list[Conversation]:
    """Those that the rest of a SELECT names, in its order."""
    return _selected(Conversation, db, f"conversations {rest}", values)


def messages(db: Database, rest: str, values: Any = (), before: str = "") -> list[Message]:
    """Likewise; `before`: what stands before the SELECT."""
    return _selected(Message, db, f"messages {rest}", values, before)


def _selected(kind: type[R], db: Database, rest: str, values: Any, before: str = "") -> list[R]:
    names = [field.name for field in fields(kind)]
    rows = db.all(f"{before} SELECT {', '.join(names)} FROM {rest}", values)
    given = [{name: READ[name](value) if name in READ else value for name, value in zip(names, row, strict=True)}
             for row in rows]  # fmt: skip
    return [kind(**one) for one in given]


def insert(db: Database, table: str, record: Conversation | Message) -> int:
    """Returns the number of the new row."""
    values = changes({field.name: getattr(record, field.name) for field in fields(record)})
    marks = ", ".join("?" * len(values))
    row = db.connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
    return row.lastrowid or 0


def changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Column values for fields."""
    return {name: _STORED[name](value) if name in _STORED else value for name, value in given.items()}


# What was deleted leaves the file of conversations some quiet seconds later, so that nobody waits for it. The file
# notes that it must be cleaned until that is done, so that a kill leaves it to the next opening.


QUIET_SECONDS = 2.0  # deletions in a row are cleaned up behind at once
_NOT_NOW: tuple[type[Exception], ...] = (*database.OperationalError, StorageError)


class Eraser:
    """reopen: opens the file on a connection of its own, so that it is cleaned while `db` is used."""

    def __init__(self, db: Database, texts: MessageTexts, reopen: Callable[[], None]) -> None:
        self._db, self._texts, self._reopen = db, texts, reopen
        self._timer: threading.Timer | None = None
        self._lock, self._working = threading.Lock(), threading.Lock()

    @property
    def due(self) -> bool:
        """Whether the file is still to be cleaned."""
        return bool(self._db.all("SELECT 1 FROM chores WHERE name = 'erase'"))

    def note(self) -> None:
        """Something is being deleted, in the transaction that is open."""
        self._texts.forget()
        self._db.run("INSERT OR IGNORE INTO chores VALUES ('erase')")

    def erase(self) -> None:
        """Write the file anew without what was deleted; it stays `due` if another program reads it."""
        with suppress(*_NOT_NOW):  # another program holds the file, or the disk is full
            if erase_deleted(self._db.connection):
                self._db.run("DELETE FROM chores WHERE name = 'erase'")

    def begin(self) -> None:
        """Something was deleted."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(QUIET_SECONDS, self._work)
            self._timer.daemon = True
            self._timer.start()

    def finish(self) -> None:
        """Have it done now. Not with the lock of `db` held: who does it needs it."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()  # it may have begun
            self._work()

    def _work(self) -> None:
        with self._working:
            if self.due:
                with self._db.patient():
                    self._reopen()
