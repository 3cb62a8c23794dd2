"""Conversations as files: JSON keeps everything and comes back, Markdown is for people to read.

What comes in is checked completely before anything is stored. Conversations keep their ids, so that one which is there
is not brought twice. Knows nothing of SQLite.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from omnidraft.chats.pictures import sound_pictures
from omnidraft.chats.records import ROLES, Conversation, Message, json_value, sound, title_of, whole_text
from omnidraft.chats.store import ChatStore
from omnidraft.chats.titles import one_line
from omnidraft.errors import SettingsError, StorageError
from omnidraft.format import size
from omnidraft.settings.config import SamplingSettings, from_dict, to_dict

# Checking conversations that come from a file: everything is looked at before anything is believed.


MAX_DEPTH = 50  # of what goes with a message; ours has four levels
LATEST = 253_402_300_799.0  # the end of the year 9999: later times break calendars

T = TypeVar("T")
_ID = re.compile("[0-9a-f]{32}")


def _conversation(given: Any, where: str) -> tuple[Conversation, list[Message]]:
    fields = _expect(given, dict, where)
    target = fields.get("target")
    chat = Conversation(
        id=_known_id(fields.get("id")),
        title=title_of(_take(fields, "title", str, where)),
        created=_time(fields, "created", where),
        updated=_time(fields, "updated", where),
        named=_take(fields, "named", bool, where),
        system=whole_text(_take(fields, "system", str, where)),
        sampling=_sampling(fields.get("sampling"), where),
        target=None if target is None else whole_text(_take(fields, "target", str, where)),
        speculation=_take(fields, "speculation", bool, where),
        pinned=fields.get("pinned") is True,
        archived=fields.get("archived") is True,
        tools=() if isinstance(fields.get("tools"), list) else None,  # a file may say anything: each is asked about
    )
    return chat, _messages(_take(fields, "messages", list, where), chat.id, where)


def _known_id(given: Any) -> str:
    """The id of an export; a new one where there is none, as in those of earlier versions."""
    return given if isinstance(given, str) and _ID.fullmatch(given) else uuid.uuid4().hex


def _messages(given: list[Any], chat: str, where: str) -> list[Message]:
    new_ids: dict[str, str] = {}
    shown: set[str | None] = set()  # parents that have an active child
    messages: list[Message] = []
    for number, item in enumerate(given, 1):
        message, old_id = _message(item, chat, new_ids, f"message {number} of {where}")
        if message.active and message.parent in shown:
            raise _wrong(f"message {number} of {where} is a second version shown at once")
        if message.active:
            shown.add(message.parent)
        new_ids[old_id] = message.id
        messages.append(message)
    if any(m.parent not in shown for m in messages):
        raise _wrong(f"{where} has a message of which no version is shown")
    return messages


def _message(given: Any, chat: str, new_ids: dict[str, str], where: str) -> tuple[Message, str]:
    fields = _expect(given, dict, where)
    old_id, parent, role = _take(fields, "id", str, where), fields.get("parent"), _take(fields, "role", str, where)
    if old_id in new_ids:
        raise _wrong(f"{where} has the id of another")
    if role not in ROLES:
        raise _wrong(f"{where} has the role {role[:40]!r}")
    if parent is not None and (not isinstance(parent, str) or parent not in new_ids):
        raise _wrong(f"{where} answers a message that does not come before it")
    content, created = whole_text(_take(fields, "content", str, where)), _time(fields, "created", where)
    active, meta = _take(fields, "active", bool, where), _meta(_take(fields, "meta", dict, where), where)
    above = None if parent is None else new_ids[parent]
    return Message(uuid.uuid4().hex, chat, above, role, content, created, active, meta), old_id


def _meta(given: dict[str, Any], where: str) -> dict[str, Any]:
    """What goes with a message, if it is not nested so deeply that reading or writing it would fail one day."""
    level: list[Any] = [given]
    for _ in range(MAX_DEPTH):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [value for one in inner for value in one if isinstance(value, dict | list)]
        if not level:
            return sound(json_value(given))
    raise _wrong(f"'meta' in {where} is nested too deeply")


def _sampling(given: Any, where: str) -> SamplingSettings | None:
    if given is None:
        return None
    try:
        return from_dict(SamplingSettings, _expect(given, dict, f"the sampling of {where}"))[0]
    except SettingsError as error:
        raise _wrong(f"in {where}, {str(error)[0].lower()}{str(error)[1:].rstrip('.')}") from None


def _time(fields: dict[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LATEST:  # false for NaN, too
        raise _wrong(f"{where} has no valid time {name!r}")
    # Another machine's clock may be ahead; what is dated in the future would head the list until then.
    return min(float(value), time.time())


def _take(fields: dict[str, Any], name: str, kind: type[T], where: str) -> T:
    return _expect(fields.get(name), kind, f"{name!r} in {where}")


def _expect(value: Any, kind: type[T], what: str) -> T:
    if not isinstance(value, kind):
        raise _wrong(f"{what} is missing or of another type")
    return value


def _wrong(what: str) -> StorageError:
    return StorageError(f"The file cannot be imported: {what}.")


_HEADINGS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}


def write_markdown(chat: Conversation, messages: Sequence[Message]) -> str:
    """Title, system prompt if there is one, then the given turns, each with its text files and the names of its
    pictures."""
    turns = [("System prompt", chat.system)] if chat.system else []
    turns += [(_HEADINGS[message.role], _as_read(message)) for message in messages]
    return "\n".join([f"# {chat.title}\n", *(f"## {heading}\n\n{content}\n" for heading, content in turns)])


def _as_read(message: Message) -> str:
    return "\n".join([*(f"[picture: {one_line(name)}]" for name, _ in message.pictures), message.prompt])


# Whole files.


FORMAT = "omnidraft-chats"
VERSION = 1
MAX_BYTES = 512_000_000
_CONVERSATION = ("id", "title", "named", "created", "updated", "system", "pinned", "archived", "tools")
_MESSAGE = ("id", "parent", "role", "content", "created", "active", "meta")


def export_json(store: ChatStore, chats: Iterable[str] | None = None) -> str:
    """The given conversations (all by default) with every version of every message and their pictures, as JSON
    text."""
    wanted = [chat.id for chat in store.conversations()] if chats is None else list(chats)
    found = [store.snapshot(chat) for chat in wanted]
    conversations = [_plain(*one) for one in found]
    whole = {"format": FORMAT, "version": VERSION, "exported": time.time(), "conversations": conversations}
    if pictures := store.shown_pictures(found):
        whole["pictures"] = pictures
    return json.dumps(whole, ensure_ascii=False, indent=1)


def import_json(store: ChatStore, text: str | bytes) -> tuple[list[Conversation], int]:
    """Add every conversation of an exported text that is not there yet: (those added, how many were there).

    StorageError says what is wrong with it; nothing is stored then.
    """
    conversations, pictures = read_json(text)
    there = {chat.id for chat in store.conversations()}
    new = {chat.id: (chat, messages) for chat, messages in conversations if chat.id not in there}
    return store.insert(new.values(), pictures if new else {}), len(conversations) - len(new)


def read_json(text: str | bytes) -> tuple[list[tuple[Conversation, list[Message]]], dict[str, str]]:
    """Every conversation of an exported text, its messages under new ids, and their pictures. StorageError says what is
    wrong with it; a damaged picture is left out."""
    try:
        whole = json.loads(_decoded(text), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"The file cannot be imported: it is not JSON ({_short(error)}).") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise StorageError("The file cannot be imported: it is not an OmniDraft export of conversations.")
    if whole.get("version") != VERSION:
        raise StorageError("The file cannot be imported: another version of OmniDraft wrote it.")
    given = _expect(whole.get("conversations"), list, "its list of conversations")
    conversations = [_conversation(item, f"conversation {number}") for number, item in enumerate(given, 1)]
    return conversations, sound_pictures(whole.get("pictures"))


def export_markdown(store: ChatStore, chat: str) -> str:
    """The conversation as it is shown: title, system prompt, and the active version of every turn."""
    conversation, _ = store.snapshot(chat)
    return write_markdown(conversation, store.path(chat))


def _plain(chat: Conversation, messages: list[Message]) -> dict[str, object]:
    sampling = None if chat.sampling is None else to_dict(chat.sampling)
    return {
        **{name: getattr(chat, name) for name in _CONVERSATION},
        "sampling": sampling, "target": chat.target, "speculation": chat.speculation,
        "messages": [{name: getattr(message, name) for name in _MESSAGE} for message in messages],
    }  # fmt: skip


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_BYTES:
        raise StorageError(f"The file cannot be imported: it is larger than {size(MAX_BYTES)}.")
    try:
        return text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StorageError("The file cannot be imported: it is not UTF-8 text.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
