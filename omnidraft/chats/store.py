"""The conversation store: one SQLite file per profile, safe from several threads, erasing what is deleted.

Knows nothing of models or pages. Every method is one transaction; a kill loses at most the last second of an answer.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from omnidraft.chats import schema, tree
from omnidraft.chats.pictures import PictureFile, Pictures, pictures_meta
from omnidraft.chats.records import ROLES, Conversation, Hit, Message, json_value, title_of, whole_text
from omnidraft.chats.schema import APPLICATION_ID, MIGRATIONS, Eraser
from omnidraft.chats.search import MessageTexts, holds_words
from omnidraft.chats.titles import UNTITLED, automatic_title
from omnidraft.errors import StorageError
from omnidraft.storage.database import Database

AHEAD_SECONDS = 86_400.0  # clocks differ; what is dated further ahead is wrong


class Place(Enum):
    LAST = "behind the last message shown"


LAST = Place.LAST
CHANGEABLE = {"system", "sampling", "target", "speculation", "pinned", "archived", "tools"}
# A clock set right again, or a file from elsewhere: by their dates they would head the list for years.
_RECENT = "CASE WHEN updated > ? THEN 0 ELSE updated END DESC, rowid DESC"


class ChatStore:
    """Conversations and their messages. Opens (and makes) `file`; StorageError if it cannot or the file is not ours."""

    def __init__(self, file: Path) -> None:
        self._db = Database(file, APPLICATION_ID, MIGRATIONS)
        try:
            self._texts = MessageTexts(self._db.connection)
            self._eraser = Eraser(self._db, self._texts, self._reopen)
            if self._eraser.due:
                self._eraser.erase()
        except BaseException:
            self._db.close()
            raise
        self.pictures = Pictures(self._db)

    def close(self) -> None:
        self._eraser.finish()
        self._db.close()

    def __enter__(self) -> ChatStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Conversations

    def create(self, title: str = "", **changes: Any) -> Conversation:
        """A new conversation without messages; `changes`: see `update`. Without a title it is named after its first
        message."""
        now, name = time.time(), title_of(title)
        with self._db.changing():
            (chat,) = self.insert([(Conversation(uuid.uuid4().hex, name or UNTITLED, now, now, bool(name)), [])])
            return self.update(chat.id, **changes)

    def conversations(self, limit: int = -1) -> list[Conversation]:
        """Pinned ones first, then the most recently used, archived ones last; all by default. What is dated into the
        future comes behind its like."""
        order, ahead = f"ORDER BY archived, pinned DESC, {_RECENT} LIMIT ?", time.time() + AHEAD_SECONDS
        return schema.conversations(self._db, order, (ahead, limit))

    def latest(self) -> Conversation | None:
        """The most recently used one, pinned or not; None if there is none but archived ones."""
        order, ahead = f"WHERE NOT archived ORDER BY {_RECENT} LIMIT 1", time.time() + AHEAD_SECONDS
        return next(iter(schema.conversations(self._db, order, (ahead,))), None)

    def get(self, chat: str) -> Conversation:
        """StorageError if it was deleted."""
        if not (found := schema.conversations(self._db, "WHERE id = ?", (chat,))):
            raise StorageError("This conversation no longer exists.")
        return found[0]

    def rename(self, chat: str, title: str) -> Conversation:
        """Name a conversation; an empty title goes back to the automatic one."""
        name = title_of(title)
        with self._db.changing():
            self.get(chat)
            first = next((m.content for m in self.path(chat) if m.role == "user"), None)
            shown = name or (UNTITLED if first is None else automatic_title(first))
            self._db.run("UPDATE conversations SET title = ?, named = ? WHERE id = ?", (shown, bool(name), chat))
            return self.get(chat)

    def update(self, chat: str, **changes: Any) -> Conversation:
        """Change `system`, `sampling`, `target`, `speculation`, `pinned`, `archived` or `tools`; TypeError for
        other names."""
        if unknown := changes.keys() - CHANGEABLE:
            raise TypeError(f"a conversation has no {', '.join(sorted(unknown))} to change")
        with self._db.changing():
            self.get(chat)
            for column, value in schema.changes(changes).items():
                self._db.run(f"UPDATE conversations SET {column} = ? WHERE id = ?", (value, chat))
            return self.get(chat)

    def delete(self, *chats: str) -> None:
        """Delete conversations so that nothing of them is left in the file or its log. Unknown ids are ignored.

        They are gone from every list at once, from the file some seconds later, at the latest when it is closed or
        opened again: that takes seconds where much is kept.
        """
        with self._deleting():
            for chat in chats:
                self._db.run("DELETE FROM messages WHERE chat = ?", (chat,))
                self._db.run("DELETE FROM conversations WHERE id = ?", (chat,))

    def clear(self) -> None:
        """As `delete`, of everything, also presets and prompts that earlier versions kept."""
        with self._deleting():
            for table in ("messages", "conversations", "library"):
                self._db.run(f"DELETE FROM {table}")

    def erased(self) -> bool:
        """Have what was deleted leave the file now. False: another program reads it; the next opening does the rest."""
        self._eraser.finish()
        return not self._eraser.due

    # Messages

    def append(
        self,
        chat: str,
        role: str,
        content: str,
        *,
        parent: str | Literal[Place.LAST] | None = LAST,
        meta: Mapping[str, Any] | None = None,
        pictures: Sequence[PictureFile] = (),
    ) -> Message:
        """Add a message and show it. `parent` None makes it a first turn; with siblings it is a new version of them."""
        if role not in ROLES:
            raise ValueError(f"role {role!r} is not one of {', '.join(ROLES)}")
        content, extra = whole_text(content), json_value({**(meta or {}), **pictures_meta(pictures)})
        with self._db.changing():
            known = self.get(chat)
            above = tree.last(self._db, chat) if parent is LAST else parent
            message = Message(uuid.uuid4().hex, chat, above, role, content, time.time(), True, extra)
            self._texts.put(tree.add(self._db, message), content)
            self.pictures.add(pictures)
            self._touch(chat)
            if role == "user" and above is None and not known.named:
                self._db.run("UPDATE conversations SET title = ? WHERE id = ?", (automatic_title(content), chat))
        return message

    def message(self, message: str) -> Message:
        """StorageError if it was deleted."""
        return tree.message(self._db, message)

    def path(self, chat: str) -> list[Message]:
        """The messages shown, first turn first."""
        return tree.shown(self._db, chat)

    def siblings(self, message: str) -> list[Message]:
        """All versions of a message, itself included, oldest first."""
        with self._db.using():
            known = self.message(message)
            which = "WHERE chat = ? AND parent IS ? ORDER BY seq"
            return schema.messages(self._db, which, (known.chat, known.parent))

    def versions(self, chat: str) -> dict[str, tuple[int, int]]:
        """For each message its place among its versions (from 1) and their number."""
        window = "OVER (PARTITION BY parent ORDER BY seq)"
        found = self._db.all(
            f"SELECT id, row_number() {window}, count(*) OVER (PARTITION BY parent) FROM messages WHERE chat = ?",
            (chat,),
        )
        return {of: (place, count) for of, place, count in found}

    def select(self, message: str) -> list[Message]:
        """Show this version, and below it what was shown there last. Returns the new path."""
        with self._db.changing():
            chat = self.message(message).chat
            tree.show(self._db, chat, message)
            return self.path(chat)

    def edit(
        self,
        message: str,
        content: str,
        meta: Mapping[str, Any] | None = None,
        pictures: Sequence[PictureFile] = (),
    ) -> Message:
        """A new version of a message beside the old one, shown from now on."""
        with self._db.changing():
            old = self.message(message)
            return self.append(old.chat, old.role, content, parent=old.parent, meta=meta, pictures=pictures)

    def delete_turn(self, question: str) -> None:
        """Delete this version of a user's message with all answers to it; what followed them moves up in its place.
        Nothing of it is left in the file, nor in an automatic title; see `delete`. StorageError if it is no user's
        message."""
        with self._deleting():
            old = self.message(question)
            if old.role != "user":
                raise StorageError("Only a question can be deleted, with its answers.")
            tree.take_out(self._db, old)
            self._touch(old.chat)
            if not self.get(old.chat).named:
                self.rename(old.chat, "")

    def fork(self, message: str) -> Conversation:
        """A new conversation with the turns that lead to this message, itself included, as they are."""
        with self._db.changing():
            chat = self.get(self.message(message).chat)
            now, id = time.time(), uuid.uuid4().hex
            fork = replace(chat, id=id, title=title_of(f"{chat.title} (fork)"), named=True, created=now, updated=now,
                           pinned=False, archived=False, tools=None if chat.tools is None else ())  # fmt: skip
            return self.insert([(fork, tree.copied(tree.line(self._db, message), id))])[0]

    def save_partial(
        self, message: str, content: str, meta: Mapping[str, Any] | None = None, *, final: bool = False
    ) -> None:
        """Store an answer as it grows. `meta` None keeps what is stored. Until `final` the message is `partial`. One
        deleted meanwhile is not an error."""
        content = whole_text(content)
        with self._db.changing():
            try:
                old = self.message(message)
            except StorageError:
                return
            kept = dict(old.meta if meta is None else json_value(meta))
            kept.pop("partial", None)
            if not final:
                kept["partial"] = True
            text = json.dumps(kept, ensure_ascii=False)
            self._db.run("UPDATE messages SET content = ?, meta = ? WHERE id = ?", (content, text, message))
            row = self._db.all("SELECT seq FROM messages WHERE id = ?", (message,))
            self._texts.put(row[0][0], content)
            self._touch(old.chat)

    def search(self, query: str, limit: int = 50) -> list[Hit]:
        """Titles and messages (every version) with all words of `query`; newest first."""
        query = whole_text(query)
        if not query.split():
            return []
        with self._db.using():
            chats = {chat.id: chat for chat in self.conversations()}
            hits = [Hit(chat, None, chat.title) for chat in chats.values() if holds_words(chat.title, query)]
            found = self._texts.find(query, limit)
        return [*hits, *(Hit(chats[chat], message, text) for chat, message, text in found)][:limit]

    # Whole conversations, for export and import

    def snapshot(self, chat: str) -> tuple[Conversation, list[Message]]:
        """A conversation with all versions of all its messages, parents before children."""
        with self._db.using():
            return self.get(chat), schema.messages(self._db, "WHERE chat = ? ORDER BY seq", (chat,))

    def shown_pictures(self, conversations: Iterable[tuple[Conversation, Sequence[Message]]]) -> dict[str, str]:
        """The pictures in whole conversations, as base64 by hash."""
        with self._db.using():
            return self.pictures.named_in(message.meta for _, messages in conversations for message in messages)

    def insert(
        self,
        conversations: Iterable[tuple[Conversation, Sequence[Message]]],
        pictures: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Conversation]:
        """Add whole conversations as they are, with their pictures (base64 by hash), in one transaction; parents come
        before children."""
        added = []
        with self._db.changing():
            self.pictures.keep(pictures)
            for chat, messages in conversations:
                schema.insert(self._db, "conversations", chat)
                for message in messages:
                    self._texts.put(schema.insert(self._db, "messages", message), message.content)
                added.append(chat)
        return added

    # Inside

    @contextmanager
    def _deleting(self) -> Iterator[None]:
        with self._db.changing():
            self._eraser.note()
            yield
            self.pictures.prune()
        self._eraser.begin()

    def _touch(self, chat: str) -> None:
        self._db.run("UPDATE conversations SET updated = ? WHERE id = ?", (time.time(), chat))

    def _reopen(self) -> None:
        """Open the file on a connection of its own, which does what is left to do."""
        with suppress(StorageError):  # the next opening tries again
            ChatStore(self._db.file).close()


# The conversations deleted last, for whoever did not mean it. They are kept in memory only, until others are deleted
# or the program ends: what was deleted leaves the file as ever.


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
            self._store.delete(*(chat.id for chat, _ in self._kept))
            self._mark = secrets.token_hex(8)
            return self._mark

    def bring_back(self, mark: str) -> list[Conversation]:
        """Store them as they were; none if that is done, others were deleted or the program was started since."""
        with self._lock:
            if mark != self._mark:
                return []
            there = {chat.id for chat in self._store.conversations()}  # one may have come back by an import
            kept, pictures = [one for one in self._kept if one[0].id not in there], self._pictures
            self._kept, self._pictures = [], {}
            return self._store.insert(kept, pictures)

    def forget(self) -> None:
        with self._lock:
            self._kept, self._pictures = [], {}
