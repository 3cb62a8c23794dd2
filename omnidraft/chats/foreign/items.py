"""The JSON values in a file or a zip of files, one conversation at a time: whatever its size, a few megabytes are held.

Knows nothing of what the values mean.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from omnidraft.errors import StorageError

MAX_BYTES = 512 << 20  # of JSON, unpacked
MOST_FILES = 20_000
MOST_ITEM = 16 << 20  # characters of one conversation, or of a file that is no list
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
            raise StorageError(f"The file cannot be imported: one part of it is larger than {MOST_ITEM >> 20} MB.")


def _wanted(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """`conversations.json` in whatever parts, else every JSON file."""
    entries = [entry for entry in archive.infolist() if entry.filename.lower().endswith(".json")]
    named = [e for e in entries if e.filename.rpartition("/")[2].startswith("conversations")]
    wanted = named or entries
    if len(wanted) > MOST_FILES or sum(entry.file_size for entry in wanted) > MAX_BYTES:
        raise StorageError(f"The file cannot be imported: it unpacks to more than {MAX_BYTES >> 20} MB.")
    return wanted
