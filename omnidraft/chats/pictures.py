"""Pictures that came with messages: each kept once in the conversations' file, by what it holds.

A message's meta data has names and hashes; the pictures lie in a table of their own, so they are carried, encrypted,
exported and erased with the conversations. They are text (base64) there: a file from elsewhere may hold no binary
values. Knows no model and no page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from omnidraft.backends.pictures import read_picture, to_keep
from omnidraft.errors import PictureError
from omnidraft.storage.database import Database

_NAMED = (
    "SELECT json_extract(value, '$.digest') AS named FROM messages, json_each(meta, '$.pictures') "
    "WHERE type = 'object' AND named IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A picture to be sent; data: PNG or JPEG; digest: its SHA-256 in hexadecimal."""

    name: str
    digest: str
    data: bytes

    @classmethod
    def made(cls, name: str, data: bytes) -> PictureFile:
        """From a file as somebody has it; PictureError if it is none."""
        kept = to_keep(data, name)
        return cls(name, hashlib.sha256(kept).hexdigest(), kept)


class ShownPicture(NamedTuple):
    """What a message says of a picture that came with it."""

    name: str
    digest: str


def pictures_of(meta: Mapping[str, Any]) -> list[ShownPicture]:
    return [ShownPicture(one["name"], one["digest"]) for one in meta.get("pictures", [])]


def pictures_meta(pictures: Iterable[PictureFile]) -> dict[str, Any]:
    """Meta data that names `pictures`, for a message's own; empty without."""
    named = [{"name": picture.name, "digest": picture.digest} for picture in pictures]
    return {"pictures": named} if named else {}


def are_pictures(value: Any) -> bool:
    """Whether meta data names pictures as it should."""
    return isinstance(value, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("digest"), str)
        for one in value
    )


def sound_pictures(given: Any) -> dict[str, str]:
    """Of pictures by hash, as an export has them, those that hold what they should. The others read as missing."""
    if not isinstance(given, Mapping):
        return {}
    return {digest: text for digest, text in given.items() if _opens(_data(digest, text))}


class Pictures:
    """The pictures in a store's file. Who deletes messages calls `prune` in the same transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def keep(self, pictures: Mapping[str, str]) -> None:
        """pictures: base64 by hash; in the transaction that is open. A damaged one is mended."""
        for row in pictures.items():
            self._db.run("INSERT OR REPLACE INTO pictures VALUES (?, ?)", row)

    def add(self, pictures: Iterable[PictureFile]) -> None:
        self.keep({picture.digest: base64.b64encode(picture.data).decode() for picture in pictures})

    def get(self, digest: str) -> bytes | None:
        """None if the picture is missing or damaged."""
        found = self._db.all("SELECT data FROM pictures WHERE digest = ?", (digest,))
        return _data(digest, found[0][0]) if found else None

    def named_in(self, metas: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Those that messages with this meta data show: base64 by hash."""
        wanted = dict.fromkeys(picture.digest for meta in metas for picture in pictures_of(meta))
        rows = [row for digest in wanted for row in self._db.all("SELECT * FROM pictures WHERE digest = ?", (digest,))]
        return dict(rows)

    def files(self, shown: Sequence[ShownPicture]) -> list[PictureFile]:
        """To be sent once more; missing ones are left out."""
        found = [(one, self.get(one.digest)) for one in shown]
        return [PictureFile(one.name, one.digest, data) for one, data in found if data is not None]

    def prune(self) -> None:
        """Delete those that no message shows any more."""
        if self._db.all("SELECT 1 FROM pictures LIMIT 1"):
            self._db.run(f"DELETE FROM pictures WHERE digest NOT IN ({_NAMED})")


def _data(digest: str, text: Any) -> bytes | None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _opens(data: bytes | None) -> bool:
    try:
        read_picture(data or b"")
    except PictureError:
        return False
    return True


# Text files that came with a message: how they are kept with it, and how a model reads them. They are kept as plain
# JSON values in the message's meta data, so that every version and every export has them. Knows nothing of uploads.


_ABOUT = ("missing", "size")
_TICKS = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's name and its text. missing: what it holds beside that, in words; size: bytes of the file the text was
    taken from, 0 where it is the text; encoding: one of Python's names, where it was guessed."""

    name: str
    text: str
    missing: str = ""
    size: int = 0
    encoding: str = ""

    @property
    def bytes(self) -> int:
        """Of the file."""
        return self.size or len(self.text.encode())

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.missing})" if self.missing else self.name


def files_of(meta: Mapping[str, Any]) -> list[TextFile]:
    """The files in a message's meta data; what is no file there is passed over (it may come from an import)."""
    given = meta.get("files")
    found = [f for f in given if isinstance(f, Mapping)] if isinstance(given, list) else []
    return [
        TextFile(f["name"], f["text"], str(f.get("missing", "")), size if isinstance(size := f.get("size"), int) else 0)
        for f in found
        if isinstance(f.get("name"), str) and isinstance(f.get("text"), str)
    ]


def files_meta(files: Iterable[TextFile]) -> dict[str, Any]:
    """Meta data that keeps `files`, for a message's own; empty without files."""
    kept = [
        {"name": file.name, "text": file.text, **{key: value for key in _ABOUT if (value := getattr(file, key))}}
        for file in files
    ]
    return {"files": kept} if kept else {}


def with_files(content: str, files: Sequence[TextFile]) -> str:
    """What a model reads: each file under its name in a fence longer than any inside it, then the message itself."""
    return "\n\n".join([*(f"{file.heading}:\n{fenced(file.text)}" for file in files), content]) if files else content


def fenced(text: str) -> str:
    """`text` in a fence longer than any inside it."""
    fence = "`" * max((len(run) + 1 for run in _TICKS.findall(text)), default=3)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}\n{text}{end}{fence}"
