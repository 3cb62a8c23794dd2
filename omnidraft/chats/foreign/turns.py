"""What every other program's conversation becomes first: turns in a row, with what is known about the whole.

Other versions of turns are lines of their own; where lines go through the same turns, these are stored once.
"""

from __future__ import annotations

import io
import json
import math
import re
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from omnidraft.chats.records import Conversation, Message, title_of, whole_text
from omnidraft.chats.titles import UNTITLED, automatic_title
from omnidraft.errors import StorageError
from omnidraft.format import size

MOST_LINES = 200  # of one conversation: each is read to its beginning
# What programs count in: seconds, milliseconds, microseconds or nanoseconds since 1970.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


@dataclass(frozen=True, slots=True)
class Turn:
    """role: user or assistant. model: who wrote an answer, where that is known. key: which turn it is, in all lines."""

    role: str
    text: str
    created: float | None = None
    model: str | None = None
    key: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation of another program, along the path that was shown there; `others` are the lines beside it."""

    title: str
    turns: list[Turn]
    system: str = ""
    created: float | None = None
    updated: float | None = None
    others: list[list[Turn]] = field(default_factory=list)


def as_stored(talk: Talk, source: str) -> tuple[Conversation, list[Message]] | None:
    """The conversation under new ids, turns of one role in a row as one; None where nobody says anything."""
    turns = list(_joined(turn for turn in talk.turns if turn.text.strip()))
    if not turns:
        return None
    now = time.time()
    created = min(talk.created or turns[0].created or now, now)
    updated = min(talk.updated or turns[-1].created or created, now)
    title = title_of(talk.title)
    automatic = automatic_title(turns[0].text) if turns[0].role == "user" else UNTITLED
    chat = Conversation(uuid.uuid4().hex, title or automatic, created, updated, bool(title), whole_text(talk.system))
    made: dict[tuple[str | None, str], Message] = {}  # by what is above and the turn's key
    shown: dict[str | None, str] = {}  # the version shown below each message; the line shown last decides
    for line in (*(_joined(turn for turn in other if turn.text.strip()) for other in talk.others), turns):
        parent = None
        for turn in line:
            place = (parent, turn.key or f"{turn.role} {turn.text}")  # some exports name no messages
            if place not in made:
                meta = {"source": source} | ({"model": whole_text(turn.model)} if turn.model else {})
                when = min(turn.created or created, now)
                made[place] = Message(
                    uuid.uuid4().hex, chat.id, parent, turn.role, whole_text(turn.text), when, True, meta
                )
            shown[parent] = made[place].id
            parent = made[place].id
    return chat, [replace(message, active=shown[message.parent] == message.id) for message in made.values()]


def moment(value: Any) -> float | None:
    """Seconds since 1970 of a time in whatever unit; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return None
    return value / next((unit for limit, unit in _UNITS if value >= limit), 1.0)


def line_to(nodes: dict[str, Any], last: Any, parent: str) -> list[dict[str, Any]]:
    """From the first message to `last`, along the names of parents; a ring ends where it closes."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    while isinstance(last, str) and last not in seen and isinstance(node := nodes.get(last), dict):
        seen.add(last)
        found.append(node)
        last = node.get(parent)
    return found[::-1]


def ends(nodes: dict[str, Any], parent: str) -> list[str]:
    """The last messages of all lines, at most `MOST_LINES` of them: whatever no other names as its parent."""
    named = {node.get(parent) for node in nodes.values() if isinstance(node, dict)}
    return [name for name, node in nodes.items() if isinstance(node, dict) and name not in named][-MOST_LINES:]


def text_or(value: Any, other: str = "") -> str:
    return value if isinstance(value, str) else other


def _joined(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Programs write one answer as several messages, with what tools said between them."""
    held: Turn | None = None
    for turn in turns:
        if held is not None and held.role == turn.role:
            text, key = f"{held.text.rstrip()}\n\n{turn.text}", f"{held.key} {turn.key}".strip()
            held = Turn(held.role, text, held.created, held.model or turn.model, key=key)
            continue
        if held is not None:
            yield held
        held = turn
    if held is not None:
        yield held


# The JSON values in a file or a zip of files, one conversation at a time: whatever its size, a few megabytes are held.
# Knows nothing of what the values mean.


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
