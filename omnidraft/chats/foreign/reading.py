"""All that can be read of a file of another program's conversations: a child reads it, within limits.

A conversation that cannot be read costs that one, and is counted; a file of which none can be is refused in a sentence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnidraft.chats.records import Conversation, Message
from omnidraft.errors import StorageError
from omnidraft.format import counted
from omnidraft.processes.bounded_child import BoundedChild
from omnidraft.storage.files import reason

SECONDS = 120.0
MEMORY = 1 << 30  # the child's, in bytes
MOST_TEXT = 128 << 20  # bytes of what it may say: an upload has ten megabytes, packed
_CHILD = "omnidraft.chats.foreign.child"


@dataclass(slots=True)
class Brought:
    """conversations: as the store takes them; skipped: how many could not be read or held nothing."""

    conversations: list[tuple[Conversation, list[Message]]] = field(default_factory=list)
    skipped: int = 0
    source: str = ""

    def sentence(self) -> str:
        """What came in, for display."""
        chats, messages = len(self.conversations), sum(len(found) for _, found in self.conversations)
        said = f"{counted(chats, 'conversation')} with {counted(messages, 'message')} came in from {self.source}"
        if self.skipped:
            said += f"; {self.skipped:,} held nothing that can be read and stayed out"
        return f"{said}."


def read_foreign(file: Path) -> Brought | None:
    """The conversations of another program's export, JSON or a zip with it; None if no known program wrote it.

    StorageError if it cannot be read at all.
    """
    found, said, end = Brought(), 0, None
    try:
        child = BoundedChild(_CHILD, {"path": str(file.resolve())}, SECONDS, MEMORY, {})
    except OSError as error:
        raise StorageError(f"The file cannot be imported: {reason(error)}.") from error
    for line in child.lines():
        said += len(line)
        if said > MOST_TEXT:
            raise StorageError(f"The file cannot be imported: it holds more than {MOST_TEXT >> 20} MB of text.")
        end = json.loads(line)
        if "chat" in end:
            found.conversations.append(_stored(end))
    if child.late:
        raise StorageError("The file cannot be imported: reading it took too long.")
    if child.code != 0 or end is None:
        raise StorageError("The file cannot be imported: it needs too much memory, or is damaged.")
    if refused := end.get("refused"):
        raise StorageError(refused)
    if end["source"] is None:
        return None
    found.source, found.skipped = end["source"], end["skipped"]
    if not found.conversations:
        raise StorageError(
            f"The file cannot be imported: none of its conversations from {found.source} holds any text."
        )
    return found


def _stored(said: dict[str, Any]) -> tuple[Conversation, list[Message]]:
    chat = Conversation(**{**said["chat"], "tags": tuple(said["chat"]["tags"])})
    return chat, [Message(**message) for message in said["messages"]]
