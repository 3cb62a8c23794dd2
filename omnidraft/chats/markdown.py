"""A conversation as Markdown a person can read anywhere, and back.

Comments that no renderer shows mark where turns begin, because a turn may itself hold headings. A line of a message
that looks like such a mark gets one more backslash in front, which reading takes away again.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Sequence

from omnidraft.chats.records import ROLES, Conversation, Message, title_of, whole_text
from omnidraft.chats.titles import UNTITLED, automatic_title, one_line
from omnidraft.errors import StorageError

_MARK = re.compile(r"<!-- omnidraft: (prompt|" + "|".join(ROLES) + r") -->\r?")
_ESCAPABLE = re.compile(r"^(\\*<!-- omnidraft: )", re.MULTILINE)
_ADDED = r"\\\1"  # one more backslash
_ESCAPED = re.compile(r"^\\(\\*<!-- omnidraft: )", re.MULTILINE)
_HEADINGS = {
    "prompt": "System prompt",
    "user": "User",
    "assistant": "Assistant",
    "system": "System",
    "tool": "Tool",
}


def write_markdown(chat: Conversation, messages: Sequence[Message]) -> str:
    """Title, system prompt if there is one, then the given turns, each with its text files and the names of its
    pictures."""
    turns = [("prompt", chat.system)] if chat.system else []
    turns += [(message.role, _read(message)) for message in messages]
    parts = [f"# {chat.title}\n"]
    for role, content in turns:
        parts.append(f"<!-- omnidraft: {role} -->\n## {_HEADINGS[role]}\n\n{_ESCAPABLE.sub(_ADDED, content)}\n")
    return "\n".join(parts)


def _read(message: Message) -> str:
    return "\n".join([*(f"[picture: {one_line(name)}]" for name, _ in message.pictures), message.prompt])


def parse_markdown(text: str) -> tuple[Conversation, list[Message]]:
    """A conversation with new ids from `write_markdown`'s text; StorageError if it holds no turn."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _MARK.fullmatch(line)]
    turns = []
    for start, end in itertools.pairwise([*starts, len(lines)]):
        mark = _MARK.fullmatch(lines[start])
        turns.append((mark[1] if mark else "", _content(lines[start + 1 : end])))
    messages = [(role, content) for role, content in turns if role != "prompt"]
    if not messages:
        raise StorageError("The file cannot be imported: it holds no turn of a conversation exported by OmniDraft.")
    system = next((content for role, content in turns if role == "prompt"), "")
    return _build(lines[: starts[0]], system, messages)


def _content(lines: list[str]) -> str:
    """The text of a turn: without its heading, the empty line behind that, and the one before the next mark."""
    if lines and lines[0].startswith("## "):
        lines = lines[1:]
        if lines and not lines[0].strip():
            lines = lines[1:]
    if lines and not lines[-1].strip():
        lines = lines[:-1]
    return _ESCAPED.sub(r"\1", "\n".join(lines))


def _build(top: list[str], system: str, turns: list[tuple[str, str]]) -> tuple[Conversation, list[Message]]:
    now = time.time()
    heading = next((title_of(line[2:]) for line in top if line.startswith("# ")), "")
    first = next((content for role, content in turns if role == "user"), "")
    automatic = automatic_title(first) if first else UNTITLED
    title = heading or automatic
    chat = Conversation(uuid.uuid4().hex, title, now, now, title != automatic, whole_text(system))
    messages: list[Message] = []
    for role, content in turns:
        parent = messages[-1].id if messages else None
        messages.append(Message(uuid.uuid4().hex, chat.id, parent, role, whole_text(content), now))
    return chat, messages
