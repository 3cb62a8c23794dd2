"""Between table rows and records: the columns, named once, and the values as SQLite holds them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnidraft.chats.meta import sound
from omnidraft.chats.records import Conversation, Message, whole_text
from omnidraft.chats.tags import tags_of
from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings, from_dict, to_dict

CONVERSATION = (
    "id, title, created, updated, named, system, sampling, target, speculation, pinned, archived, tags, tools"
)
MESSAGE = "id, chat, parent, role, content, created, active, meta"


def conversation(row: tuple[Any, ...]) -> Conversation:
    name, title, created, updated, named, system, sampling, target, *switches, tags, tools = row
    chosen, (speculation, pinned, archived) = _sampling(sampling), map(bool, switches)
    known = (name, title, created, updated, bool(named), system, chosen, target, speculation, pinned)
    return Conversation(*known, tags_of(json.loads(tags)), _tools(tools), archived)


def message(row: tuple[Any, ...]) -> Message:
    name, chat, parent, role, content, created, active, meta = row
    return Message(name, chat, parent, role, content, created, bool(active), sound(json.loads(meta)))


def insert_conversation(connection: sqlite3.Connection, chat: Conversation) -> None:
    plain = (chat.id, chat.title, chat.created, chat.updated, chat.named, chat.system)
    chosen = (_sampling_json(chat.sampling), chat.target, chat.speculation, chat.pinned, chat.archived)
    values = (*plain, *chosen, _tags_json(chat.tags), _tools_json(chat.tools))
    connection.execute(f"INSERT INTO conversations ({CONVERSATION}) VALUES ({', '.join('?' * len(values))})", values)


def insert_message(connection: sqlite3.Connection, of: Message) -> int:
    """Returns the number of the new row."""
    meta = json.dumps(of.meta, ensure_ascii=False)
    values = (of.id, of.chat, of.parent, of.role, of.content, of.created, of.active, meta)
    return (
        connection.execute(f"INSERT INTO messages ({MESSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values).lastrowid or 0
    )


def changes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Column values for the fields of a conversation that may be changed; TypeError for others."""
    makers: dict[str, Callable[[Any], Any]] = {
        "system": whole_text, "sampling": _sampling_json, "target": lambda t: t, "speculation": bool,
        "pinned": bool, "archived": bool, "tags": _tags_json, "tools": _tools_json,
    }  # fmt: skip
    if unknown := given.keys() - makers.keys():
        raise TypeError(f"a conversation has no {', '.join(sorted(unknown))} to change")
    return {name: makers[name](value) for name, value in given.items()}


def _tools_json(tools: Sequence[str] | None) -> str | None:
    return None if tools is None else json.dumps(list(tools))


def _tools(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))


def _tags_json(given: Any) -> str:
    return json.dumps(tags_of(list(given)), ensure_ascii=False)


def _sampling_json(sampling: SamplingSettings | None) -> str | None:
    return None if sampling is None else json.dumps(to_dict(sampling), ensure_ascii=False)


def _sampling(text: str | None) -> SamplingSettings | None:
    """A stored preset; what this version's ranges refuse falls back to the profile's settings."""
    if text is None:
        return None
    try:
        return from_dict(SamplingSettings, json.loads(text))[0]
    except SettingsError:
        return None
