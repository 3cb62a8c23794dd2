"""Files for a prompt: reading an upload as a picture or as text, refusing what is neither, and the chips that show what
is attached.

Knows nothing of conversations; the files' texts reach a model as part of the user's message.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import Sequence
from html import escape
from pathlib import Path

from omnidraft.app import documents
from omnidraft.app.attached import Sizes
from omnidraft.app.documents import Unreadable
from omnidraft.backends.pictures import MOST_BYTES, thumbnail
from omnidraft.chats import PictureFile, TextFile
from omnidraft.errors import PictureError
from omnidraft.format import count, size
from omnidraft.profiles.uploads import taken

MAX_BYTES = 512_000  # of one file: far more than the context of most models holds
MAX_FILES = 10
MAX_NAME = 80
PICTURES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"}
PREVIEW = 96  # pixels
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))

Attached = TextFile | PictureFile


def take(paths: Sequence[str | Path], there: Sequence[Attached]) -> tuple[list[Attached], list[str]]:
    """(files attached after this upload, a sentence per file that was refused). The uploaded copies are removed."""
    kept, refused = list(there), []
    for path in map(Path, paths):
        try:
            with taken(path):
                if len(kept) == MAX_FILES:
                    raise Unreadable(f"{_name(path)} was left out: a message takes at most {MAX_FILES} files.")
                kept.append(read(path))
        except (PictureError, Unreadable) as error:
            refused.append(str(error))
    return kept, refused


def texts(files: Sequence[Attached]) -> list[TextFile]:
    return [file for file in files if isinstance(file, TextFile)]


def pictures(files: Sequence[Attached]) -> list[PictureFile]:
    return [file for file in files if isinstance(file, PictureFile)]


def read(path: Path) -> Attached:
    """The picture, or the file's text: UTF-8 or UTF-16 with its mark, with plain line ends. Unreadable or
    PictureError says why there is none."""
    name = _name(path)
    if path.suffix.lower() in PICTURES:
        return _picture(path, name)
    if path.suffix.lower() in documents.SUFFIXES:
        return TextFile(name, documents.text_of(path, name))
    try:
        if (found := path.stat().st_size) > MAX_BYTES:
            raise Unreadable(f"{name} is {size(found)}; a text file of up to {size(MAX_BYTES)} can be attached.")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{name} could not be read ({error.strerror or error}).") from None
    encoding = next((e for mark, e in _BOMS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise Unreadable(f"{name} is not text in UTF-8, so it cannot be attached.") from None
    if "\0" in text:
        raise Unreadable(f"{name} is a binary file; only text can be attached.")
    if not text.strip():
        raise Unreadable(f"{name} is empty.")
    return TextFile(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def _picture(path: Path, name: str) -> PictureFile:
    try:
        with path.open("rb") as file:
            return PictureFile.made(name, file.read(MOST_BYTES + 1))
    except OSError as error:
        raise Unreadable(f"{name} could not be read ({error.strerror or error}).") from None


def chips(files: Sequence[Attached], sizes: Sizes) -> str:
    """What is attached to the message being written, each with its size and a button that takes it off. sizes: of the
    texts among them."""
    tokens = iter(sizes.tokens)
    about = "" if sizes.exact else "about "
    shown = "".join(
        _chip(index, file.name, "", f"{size(file.bytes)} · {about}{count(next(tokens))} tokens")
        if isinstance(file, TextFile)
        else _chip(index, file.name, _preview(file), size(len(file.data)))
        for index, file in enumerate(files)
    )
    return f'<ul class="od-chips" aria-label="Attached files">{shown}{_sum(sizes)}</ul>'


def _sum(sizes: Sizes) -> str:
    """Of several, and of those that do not fit, the sum and the room for it."""
    if sizes.room is None or (len(sizes.tokens) < 2 and not sizes.too_long):
        return ""
    room = f"{count(sum(sizes.tokens))} tokens together; {count(max(sizes.room, 0))} fit"
    if sizes.too_long:
        room += ": only the beginning is sent"
    return f'<li class="{"od-sum od-bad" if sizes.too_long else "od-sum"}">{room}</li>'


def _preview(file: PictureFile) -> str:
    small = base64.b64encode(thumbnail(file.data, PREVIEW)).decode()
    return f'<img src="data:image/jpeg;base64,{small}" alt="">'


def _chip(index: int, name: str, preview: str, about: str) -> str:
    name = escape(name)
    return (
        f'<li>{preview}<span>{name}</span><small>{about}</small><button type="button" data-kind="off" '
        f'data-index="{index}" aria-label="Take {name} off" title="Take it off">×</button></li>'
    )


def _name(path: Path) -> str:
    """The file's own name: one line, no invisible characters, not too long."""
    shown = "".join(c for c in " ".join(path.name.split()) if c.isprintable()) or "file"
    return shown if len(shown) <= MAX_NAME else shown[: MAX_NAME // 2] + "…" + shown[-MAX_NAME // 2 + 1 :]
