"""All that can be read of a file of another program's conversations: a child reads it, within limits.

A conversation that cannot be read costs that one, and is counted; a file of which none can be is refused in a sentence.
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from omnidraft.chats.foreign.programs import PROGRAMS, Program
from omnidraft.chats.foreign.turns import as_stored
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


# The JSON values in a file or a zip of files, one conversation at a time: whatever its size, a few megabytes are held.


MAX_BYTES = 512_000_000  # of JSON, unpacked
MOST_FILES = 20_000
MOST_ITEM = 16_000_000  # characters of one conversation, or of a file that is no list
_CHUNK = 1 << 16
_ZIP = b"PK\x03\x04"
_DECODER = json.JSONDecoder()
_BEHIND = tuple(",] \t\r\n")
_SPACE = re.compile(r"[ \t\r\n]*")


def is_zip(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(4) == _ZIP


def items_of(file: Path) -> Iterator[Any]:
    """Every conversation in a file, whatever it is. StorageError where it cannot be read."""
    if not is_zip(file):
        with file.open("rb") as opened:
            yield from items(opened)
        return
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in _wanted(archive):
                with archive.open(entry) as opened:
                    yield from items(opened)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise not_json() from None
        raise StorageError(f"The file cannot be imported: it is a damaged archive ({str(error)[:80]}).") from None


def not_json() -> StorageError:
    return StorageError("The file cannot be imported: it is not JSON in UTF-8.")


def items(file: IO[bytes]) -> Iterator[Any]:
    """The values of a JSON list; any other value by itself, or the list that it holds as `data`."""
    text = _Text(file)
    if text.next_character() != "[":
        whole = text.value(last=True)
        data = whole.get("data") if isinstance(whole, dict) else None  # Open WebUI's answers to a request
        yield from data if isinstance(data, list) else [whole]
        return
    text.skip()
    if text.next_character() == "]":
        return
    while True:
        yield text.value()
        following = text.next_character()
        text.skip()
        if following == "]":
            return
        if following != ",":
            raise not_json()


class _Text:
    """What is held of a file, and where reading has come to."""

    def __init__(self, file: IO[bytes]) -> None:
        self._reader = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        self._held, self._at, self._over = "", 0, False

    def next_character(self) -> str:
        """The first that is no space, which stays; "" at the end."""
        while True:
            space = _SPACE.match(self._held, self._at)
            self._at = space.end() if space is not None else self._at
            if self._at < len(self._held) or self._over:
                return self._held[self._at : self._at + 1]
            self._read(_CHUNK)

    def skip(self) -> None:
        self._at += 1

    def value(self, last: bool = False) -> Any:
        """The value that begins here. Three times as much is read each time that it is not whole: the work stays in
        proportion to its length. last: it must be all there is."""
        if last:
            while not self._over:
                self._read(MOST_ITEM)
        self.next_character()
        while True:
            try:
                found, end = _DECODER.raw_decode(self._held, self._at)
                if self._over or self._held[end : end + 1] in _BEHIND:  # else a number may go on
                    break
            except RecursionError:
                raise not_json() from None
            except ValueError:
                if self._over:
                    raise not_json() from None
            self._read(max(_CHUNK, 3 * len(self._held)))
        self._at = end
        if last and self.next_character():
            raise not_json()
        return found

    def _read(self, count: int) -> None:
        try:
            more = self._reader.read(count)
        except UnicodeDecodeError:
            raise not_json() from None
        self._over = not more
        self._held = self._held[self._at :] + more
        self._at = 0
        if len(self._held) > MOST_ITEM:
            raise StorageError(f"The file cannot be imported: one part of it is larger than {size(MOST_ITEM)}.")


def _wanted(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """`conversations.json` in whatever parts, else every JSON file."""
    entries = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".json")]
    named = [e for e in entries if e.filename.rpartition("/")[2].startswith("conversations")]
    wanted = named or entries
    if len(wanted) > MOST_FILES or sum(entry.file_size for entry in wanted) > MAX_BYTES:
        raise StorageError(f"The file cannot be imported: it unpacks to more than {size(MAX_BYTES)}.")
    return wanted


# The child that reads another program's export, so that a file made to fill the memory fills only its own. Run by
# `run_bounded` and asked {"path": ...}. Says a line of JSON for each conversation, as the store takes it; at the end
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
