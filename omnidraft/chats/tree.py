"""The tree of messages inside one conversation: which branch is shown, and how another one comes to be.

Functions over an open database; the caller holds its lock, and a transaction where something changes.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from omnidraft.chats import schema
from omnidraft.chats.records import Message
from omnidraft.errors import StorageError
from omnidraft.storage.database import Database

_BRANCH = """
WITH RECURSIVE branch(depth, seq) AS (
    SELECT 0, seq FROM messages WHERE chat = :chat AND parent IS NULL AND active
    UNION ALL
    SELECT depth + 1, child.seq FROM branch JOIN messages AS here ON here.seq = branch.seq
        JOIN messages AS child ON child.chat = :chat AND child.parent = here.id AND child.active
)
"""
_SHOWN = "JOIN branch USING (seq) ORDER BY depth"

_LINE = """
WITH RECURSIVE line(id, parent) AS (
    SELECT id, parent FROM messages WHERE id = :message
    UNION ALL
    SELECT above.id, above.parent FROM line JOIN messages AS above ON above.id = line.parent
)
"""


def message(db: Database, of: str) -> Message:
    """StorageError if it was deleted."""
    if not (found := schema.messages(db, "WHERE id = ?", (of,))):
        raise StorageError("This message no longer exists.")
    return found[0]


def shown(db: Database, chat: str) -> list[Message]:
    """The active branch, first turn first."""
    return schema.messages(db, _SHOWN, {"chat": chat}, before=_BRANCH)


def last(db: Database, chat: str) -> str | None:
    """The id of the last message shown."""
    found = db.all(f"{_BRANCH} SELECT id FROM messages {_SHOWN}", {"chat": chat})
    return found[-1][0] if found else None


def show(db: Database, chat: str, of: str) -> None:
    """Make `of` and all above it the active versions. Off first: only one of siblings may ever be on.

    Writes only what changes; most often nothing does.
    """
    names = {"message": of, "chat": chat}
    siblings = "chat = :chat AND (parent IS NULL OR parent IN (SELECT parent FROM line))"
    on_line = "id IN (SELECT id FROM line)"
    db.run(f"{_LINE} UPDATE messages SET active = 0 WHERE {siblings} AND active AND NOT {on_line}", names)
    db.run(f"{_LINE} UPDATE messages SET active = 1 WHERE {on_line} AND NOT active", names)


def add(db: Database, new: Message) -> int:
    """Store a message as the active version among its siblings, below a branch that is shown. Returns its row."""
    if new.parent is not None:
        if message(db, new.parent).chat != new.chat:
            raise StorageError("A message cannot answer one of another conversation.")
        show(db, new.chat, new.parent)
    db.run("UPDATE messages SET active = 0 WHERE chat = ? AND parent IS ? AND active", (new.chat, new.parent))
    return schema.insert(db, "messages", new)


def line(db: Database, of: str) -> list[Message]:
    """The messages that lead to one, first turn first, itself last."""
    found = [message(db, of)]
    while found[-1].parent is not None:
        found.append(message(db, found[-1].parent))
    return found[::-1]


def copied(messages: list[Message], chat: str) -> list[Message]:
    """The same messages as a line of another conversation, all shown."""
    made: list[Message] = []
    for old in messages:
        above = made[-1].id if made else None
        made.append(replace(old, id=uuid.uuid4().hex, chat=chat, parent=above, active=True))
    return made


def take_out(db: Database, question: Message) -> None:
    """Delete a question and the answers to it. What followed the answers takes its place among its versions."""
    answers = db.all("SELECT id, active FROM messages WHERE parent = ?", (question.id,))
    shown = next((id for id, active in answers if active), None)
    followers = "parent IN (SELECT id FROM messages WHERE parent = ?)"
    kept = db.all("SELECT id FROM messages WHERE active AND parent = ?", (shown,)) if shown is not None else []
    db.run(f"UPDATE messages SET active = 0 WHERE {followers}", (question.id,))
    db.run("UPDATE messages SET active = 0 WHERE id = ?", (question.id,))
    db.run(f"UPDATE messages SET parent = ? WHERE {followers}", (question.parent, question.id))
    db.run("DELETE FROM messages WHERE parent = ?", (question.id,))
    db.run("DELETE FROM messages WHERE id = ?", (question.id,))
    if question.active:
        _show_one(db, question, kept[0][0] if kept else None)


def _show_one(db: Database, gone: Message, wanted: str | None) -> None:
    """Among the versions a deleted one stood beside, show the wanted one, else the latest."""
    left = db.all("SELECT id FROM messages WHERE chat = ? AND parent IS ? ORDER BY seq", (gone.chat, gone.parent))
    if chosen := wanted or (left[-1][0] if left else None):
        db.run("UPDATE messages SET active = 1 WHERE id = ?", (chosen,))
