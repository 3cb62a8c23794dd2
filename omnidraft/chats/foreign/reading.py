"""All that can be read of a file of another program's conversations: a child reads it, within limits.

A conversation that cannot be read costs that one, and is counted; a file of which none can be is refused in a sentence.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omnidraft.chats.foreign.programs import PROGRAMS, Program
from omnidraft.chats.foreign.turns import as_stored, items_of
from omnidraft.chats.records import Conversation, Message
from omnidraft.errors import StorageError
from omnidraft.format import counted, size
from omnidraft.processes import system
from omnidraft.processes.children import BoundedChild, asked
from omnidraft.storage.files import reason

SECONDS = 120.0
MEMORY = 1 << 30  # the child's, in bytes
MOST_TEXT = 128_000_000  # bytes of what it may say: an upload has ten megabytes, packed
_CHILD = "omnidraft.chats.foreign.reading"


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
            raise StorageError(f"The file cannot be imported: it holds more than {size(MOST_TEXT)} of text.")
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
    return Conversation(**said["chat"]), [Message(**message) for message in said["messages"]]


# The child that reads another program's export, so that a file made to fill the memory fills only its own. Run by
# `bounded_child` and asked {"path": ...}. Says a line of JSON for each conversation, as the store takes it; at the end
# {"source": the program's name or null, "skipped": how many held nothing}, or {"refused": a sentence}.


def main(path: Path) -> dict[str, Any]:
    """Says every conversation; what is to be said at the end."""
    source, skipped = None, 0
    try:
        for item in items_of(path):
            program = _program(item)
            made = None if program is None else _read(program, item)
            source = source or (program.name if program is not None else None)
            if made is None:
                skipped += 1
                continue
            chat, messages = made
            _say({"chat": asdict(chat), "messages": [asdict(message) for message in messages]})
    except StorageError as error:
        return {"refused": str(error)}
    return {"source": source, "skipped": skipped}


def _program(item: Any) -> Program | None:
    return next((program for program in PROGRAMS if program.is_one(item)), None)


def _read(program: Program, item: Any) -> tuple[Conversation, list[Message]] | None:
    try:
        return as_stored(program.talk(item), program.name)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # of another shape than any version known
        return None


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    request = asked()
    system.lower_priority()
    _say(main(Path(request["path"])))
