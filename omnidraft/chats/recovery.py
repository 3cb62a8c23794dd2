"""What can still be read of a damaged file of conversations, and a new file with it. The damaged one is only renamed.

Rows are read one range of numbers after the other; where a range cannot be read, its halves are tried. Knows no page.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from omnidraft.chats.records import Conversation, Message
from omnidraft.chats.schema import READ
from omnidraft.chats.store import ChatStore
from omnidraft.errors import Damaged, StorageError
from omnidraft.format import counted
from omnidraft.storage import database
from omnidraft.storage.files import move_aside

log = logging.getLogger("omnidraft.storage")
_MOST = 1 << 20  # rows that are looked for where a table does not tell how many it has
_LOST = "Recovered"  # the title of what is left of a conversation


@dataclass(frozen=True, slots=True)
class Recoverable:
    """conversations: with their messages, parents first; pictures: base64 by hash."""

    conversations: list[tuple[Conversation, list[Message]]]
    pictures: dict[str, str]

    def words(self) -> str:
        messages = sum(len(messages) for _, messages in self.conversations)
        return f"{counted(len(self.conversations), 'conversation')} with {counted(messages, 'message')}"


def readable(path: Path) -> Recoverable:
    """What can be read of the file; nothing where nothing can."""
    with suppress(*database.Error, StorageError), closing(database.connect(path, existing=True)) as connection:
        chats = {chat.id: chat for chat in _records(connection, Conversation, "conversations")}
        messages: dict[str, list[Message]] = {id: [] for id in chats}
        for message in _records(connection, Message, "messages"):
            chats.setdefault(message.chat, Conversation(message.chat, _LOST, message.created, message.created, True))
            messages.setdefault(message.chat, []).append(message)
        pictures = {str(row["digest"]): str(row["data"]) for row in _rows(connection, "pictures")}
        return Recoverable([(chat, _tree(messages[id])) for id, chat in chats.items()], pictures)
    return Recoverable([], {})


def open_chats(path: Path) -> tuple[ChatStore, str]:
    """The conversations of a profile, and ""; where they are damaged an empty store in memory, which keeps nothing, and
    what there is to say: clients of the API, who store nothing, are answered all the same."""
    try:
        return ChatStore(path), ""
    except Damaged as error:
        told = (
            f"{error} {readable(path).words()} can be read. Recover them to go on, here or by "
            f"`python -m omnidraft profile recover {path.parent.name}`: the damaged file stays."
        )
        log.warning("%s", told)
        return ChatStore(Path(":memory:")), told


def recover(path: Path) -> str:
    """A new file with what can be read of a damaged one, which stays under another name; what came of it, in a
    sentence. StorageError if the file can be used as it is."""
    if _is_whole(path):
        raise StorageError(f"{path} is not damaged.")
    found = readable(path)
    aside = move_aside(path)
    with ChatStore(path) as store:
        store.insert(found.conversations, found.pictures)
    return f"Recovered {found.words()}; the damaged file is kept as {aside.name if aside else path.name}."


def _is_whole(path: Path) -> bool:
    """Nothing is written to find out."""
    try:
        with closing(database.connect(path, existing=True)) as connection:
            return connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except database.DatabaseError:
        return False


def _records(connection: Any, kind: type, table: str) -> Iterator[Any]:
    """Those rows of a table that make one."""
    names = {field.name for field in fields(kind)}
    for row in _rows(connection, table):
        with suppress(TypeError, ValueError, AttributeError, RecursionError):
            known = {name: value for name, value in row.items() if name in names}
            made = kind(**{name: READ[name](value) if name in READ else value for name, value in known.items()})
            if isinstance(made.id, str):
                yield made


def _rows(connection: Any, table: str) -> Iterator[dict[str, Any]]:
    """All rows of a table that can be read, by the names of their columns."""
    try:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    except database.DatabaseError:
        return
    ranges = [(0, _MOST)]
    while columns and ranges:
        first, last = ranges.pop()
        try:
            found = connection.execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid", (first, last)
            ).fetchall()
        except database.DatabaseError:
            if first < last:
                middle = (first + last) // 2
                ranges += [(middle + 1, last), (first, middle)]
            continue
        yield from (dict(zip(columns, row, strict=True)) for row in found)


def _tree(messages: list[Message]) -> list[Message]:
    """The messages as a tree again: what answers a lost one begins anew, and of versions the last one is shown."""
    known, made = set[str](), list[Message]()
    for message in messages:
        if message.id not in known:
            made.append(message if message.parent in known else replace(message, parent=None))
            known.add(message.id)
    shown: dict[str | None, str] = {}
    for message in made:
        if message.active or message.parent not in shown:
            shown[message.parent] = message.id
    return [replace(message, active=shown[message.parent] == message.id) for message in made]
