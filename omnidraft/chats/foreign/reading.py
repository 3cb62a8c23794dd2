"""Which program wrote a file of conversations, and all that can be read of it.

A conversation that cannot be read costs that one, and is counted; a file of which none can be is refused in a sentence.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from omnidraft.chats.foreign import chatgpt, lm_studio, open_webui
from omnidraft.chats.foreign.turns import as_stored
from omnidraft.chats.records import Conversation, Message
from omnidraft.errors import StorageError

PROGRAMS: tuple[ModuleType, ...] = (chatgpt, open_webui, lm_studio)
MAX_BYTES = 512 << 20  # of JSON, unpacked
MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class Brought:
    """conversations: as the store takes them; skipped: how many could not be read or held nothing."""

    conversations: list[tuple[Conversation, list[Message]]] = field(default_factory=list)
    skipped: int = 0
    source: str = ""

    def sentence(self) -> str:
        """What came in, for display."""
        chats, messages = len(self.conversations), sum(len(found) for _, found in self.conversations)
        said = f"{_counted(chats, 'conversation')} with {_counted(messages, 'message')} came in from {self.source}"
        if self.skipped:
            said += f"; {self.skipped:,} held nothing that can be read and stayed out"
        return f"{said}."


def read_foreign(data: bytes) -> Brought | None:
    """The conversations of another program's export, JSON or a zip with it; None if no known program wrote it.

    StorageError if it cannot be read at all.
    """
    given = [item for text in _texts(data) for item in _items(text)]
    known = [(program, item) for item in given if (program := _program(item)) is not None]
    if not known:
        return None
    found = [made for program, item in known if (made := _read(program, item)) is not None]
    source = known[0][0].NAME
    if not found:
        raise StorageError(f"The file cannot be imported: none of its conversations from {source} holds any text.")
    return Brought(found, len(given) - len(found), source)


def is_zip(data: bytes) -> bool:
    return data.startswith(b"PK\x03\x04")


def _texts(data: bytes) -> list[bytes]:
    """The JSON texts in a file. Of a zip: `conversations.json` in whatever parts, else every JSON file."""
    if not is_zip(data):
        return [data]
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".json")]
            named = [e for e in entries if e.filename.rpartition("/")[2].startswith("conversations")]
            wanted = named or entries
            if len(wanted) > MOST_FILES or sum(entry.file_size for entry in wanted) > MAX_BYTES:
                raise StorageError(f"The file cannot be imported: it unpacks to more than {MAX_BYTES >> 20} MB.")
            return [archive.read(entry) for entry in wanted]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise StorageError(f"The file cannot be imported: it is a damaged archive ({str(error)[:80]}).") from None


def _items(text: bytes) -> list[Any]:
    try:
        whole = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise StorageError("The file cannot be imported: it is not JSON in UTF-8.") from None
    if isinstance(whole, dict) and isinstance(whole.get("data"), list):  # Open WebUI's answers to a request
        return whole["data"]
    return whole if isinstance(whole, list) else [whole]


def _program(item: Any) -> ModuleType | None:
    return next((program for program in PROGRAMS if program.is_one(item)), None)


def _read(program: ModuleType, item: Any) -> tuple[Conversation, list[Message]] | None:
    try:
        return as_stored(program.talk(item))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # of another shape than any version known
        return None


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
