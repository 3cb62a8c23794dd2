"""Conversations as files: JSON keeps everything, Markdown keeps what a person reads.

What comes in is checked completely before anything is stored, and gets new ids, so importing twice gives two
conversations. Knows nothing of SQLite.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from omnidraft.chats.incoming import parse_conversations
from omnidraft.chats.markdown import parse_markdown, write_markdown
from omnidraft.chats.pictures import sound_pictures
from omnidraft.chats.records import Conversation, Message
from omnidraft.chats.store import ChatStore
from omnidraft.errors import StorageError
from omnidraft.settings.config import to_dict

FORMAT = "omnidraft-chats"
VERSION = 1
MAX_BYTES = 512 * 1024 * 1024
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


def import_json(store: ChatStore, text: str | bytes) -> list[Conversation]:
    """Add every conversation of an exported text. StorageError says what is wrong with it; nothing is stored then."""
    return store.insert(*read_json(text))


def read_json(text: str | bytes) -> tuple[list[tuple[Conversation, list[Message]]], dict[str, str]]:
    """Every conversation of an exported text, under new ids, and their pictures. StorageError says what is wrong with
    it; a damaged picture is left out."""
    try:
        whole = json.loads(_decoded(text), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"The file cannot be imported: it is not JSON ({_short(error)}).") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise StorageError("The file cannot be imported: it is not an OmniDraft export of conversations.")
    if whole.get("version") != VERSION:
        raise StorageError("The file cannot be imported: another version of OmniDraft wrote it.")
    return parse_conversations(whole.get("conversations")), sound_pictures(whole.get("pictures"))


def export_markdown(store: ChatStore, chat: str) -> str:
    """The conversation as it is shown: title, system prompt, and the active version of every turn."""
    conversation, _ = store.snapshot(chat)
    return write_markdown(conversation, store.path(chat))


def import_markdown(store: ChatStore, text: str | bytes) -> Conversation:
    """Add a conversation from `export_markdown`'s text. StorageError if it holds none."""
    return store.insert([parse_markdown(_decoded(text))])[0]


def _plain(chat: Conversation, messages: list[Message]) -> dict[str, object]:
    sampling = None if chat.sampling is None else to_dict(chat.sampling)
    return {
        **{name: getattr(chat, name) for name in ("title", "named", "created", "updated", "system")},
        "sampling": sampling, "target": chat.target, "speculation": chat.speculation, "tags": list(chat.tags),
        "messages": [{name: getattr(message, name) for name in _MESSAGE} for message in messages],
    }  # fmt: skip


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_BYTES:
        raise StorageError(f"The file cannot be imported: it is larger than {MAX_BYTES // 2**20} MB.")
    try:
        return text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StorageError("The file cannot be imported: it is not UTF-8 text.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _short(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
