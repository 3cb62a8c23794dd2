"""Files for a prompt: reading an upload as a picture or as text, refusing what is neither, and the chips that show what
is attached.

Knows nothing of conversations; the files' texts reach a model as part of the user's message.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from pathlib import Path

from charset_normalizer import from_bytes

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
# What text files are written in beside UTF-8; of two that are as likely the first is taken. More would only be confused
# with these.
ENCODINGS = {
    "cp1252": "Western (Windows-1252)", "cp932": "Japanese (Shift-JIS)", "utf_16_le": "UTF-16",
    "utf_16_be": "UTF-16, big-endian", "cp1250": "Central European (Windows-1250)", "cp1251": "Cyrillic (Windows-1251)",
    "cp1253": "Greek (Windows-1253)", "cp1254": "Turkish (Windows-1254)", "cp1255": "Hebrew (Windows-1255)",
    "cp1256": "Arabic (Windows-1256)", "gb18030": "Chinese (GB 18030)", "big5": "Chinese (Big5)",
    "cp949": "Korean (Windows-949)", "euc_jp": "Japanese (EUC)", "koi8_r": "Russian (KOI8-R)",
}  # fmt: skip

Attached = TextFile | PictureFile


def take(paths: Sequence[str | Path], there: Sequence[Attached], pictures: int = 0) -> tuple[list[Attached], list[str]]:
    """(files attached after this upload, a sentence per file that was refused). The uploaded copies are removed.
    pictures: how many the model sees; pages that are pictures come as such then."""
    kept, refused = list(there), []
    for path in map(Path, paths):
        try:
            with taken(path):
                if len(kept) == MAX_FILES:
                    raise Unreadable(f"{_name(path)} was left out: a message takes at most {MAX_FILES} files.")
                kept += read(path, min(pictures, MAX_FILES - len(kept) - 1))
        except (PictureError, Unreadable) as error:
            refused.append(str(error))
    return kept, refused


def texts(files: Sequence[Attached]) -> list[TextFile]:
    return [file for file in files if isinstance(file, TextFile)]


def pictures(files: Sequence[Attached]) -> list[PictureFile]:
    return [file for file in files if isinstance(file, PictureFile)]


def read(path: Path, pictures: int = 0) -> list[Attached]:
    """The picture, or the file's text with plain line ends: UTF-8 or UTF-16 with its mark, else in the encoding that is
    guessed. Of a PDF file also so many of its pages that are pictures. Unreadable or PictureError says why there is
    none."""
    name = _name(path)
    try:
        if path.suffix.lower() in PICTURES:
            with path.open("rb") as file:
                return [PictureFile.made(name, file.read(MOST_BYTES + 1))]
        found = path.stat().st_size
        if path.suffix.lower() in documents.SUFFIXES:
            whole = documents.read_document(path, name, pictures)
            pages = [PictureFile.made(f"{name}, page {number}", data) for number, data in whole.pictures.items()]
            return [TextFile(name, whole.text, whole.missing, found), *pages]
        if found > MAX_BYTES:
            raise Unreadable(f"{name} is {size(found)}; a text file of up to {size(MAX_BYTES)} can be attached.")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{name} could not be read ({error.strerror or error}).") from None
    text, encoding = _decoded(data, name)
    if not text.strip():
        raise Unreadable(f"{name} is empty.")
    return [TextFile(name, text.replace("\r\n", "\n").replace("\r", "\n"), "", found, encoding)]


def _decoded(data: bytes, name: str) -> tuple[str, str]:
    """(text, the encoding if it was guessed)."""
    encoding = next((e for mark, e in _BOMS if data.startswith(mark)), "utf-8")
    with suppress(UnicodeDecodeError):
        if "\0" not in (text := data.decode(encoding)):
            return text, ""
    guesses = list(from_bytes(data, cp_isolation=list(ENCODINGS)))
    if not guesses:
        raise Unreadable(f"{name} is a binary file; pictures, text, PDF, Word and Excel files can be attached.")
    alike = [g.encoding for g in guesses if (g.chaos, g.coherence) == (guesses[0].chaos, guesses[0].coherence)]
    encoding = min(alike, key=list(ENCODINGS).index)
    return data.decode(encoding), encoding


def in_other_encoding(file: TextFile, encoding: str) -> TextFile:
    """The same file as it reads in another encoding than was guessed. Unreadable if it is not written in that."""
    try:
        return replace(file, text=file.text.encode(file.encoding).decode(encoding), encoding=encoding)
    except (UnicodeError, LookupError):
        raise Unreadable(f"{file.name} is not written in {ENCODINGS.get(encoding, encoding)}.") from None


def chips(files: Sequence[Attached], sizes: Sizes) -> str:
    """What is attached to the message being written, each with its size and a button that takes it off. sizes: of the
    texts among them."""
    tokens = iter(sizes.tokens)
    about = "" if sizes.exact else "about "
    shown = "".join(
        _chip(index, file.name, "", f"{size(file.bytes)} · {about}{count(next(tokens))} tokens", _told(index, file))
        if isinstance(file, TextFile)
        else _chip(index, file.name, _preview(file), size(len(file.data)))
        for index, file in enumerate(files)
    )
    return f'<ul class="od-chips" aria-label="Attached files">{shown}{_sum(sizes)}</ul>'


def _told(index: int, file: TextFile) -> str:
    """What of a file is missing, and how it is read where that was guessed."""
    missing = f'<small class="od-missing">{escape(file.missing)}</small>' if file.missing else ""
    if not file.encoding:
        return missing
    options = "".join(
        f'<option value="{name}"{" selected" if name == file.encoding else ""}>{words}</option>'
        for name, words in ENCODINGS.items()
    )
    label = f"How {escape(file.name)} is written"
    title = "A guess, since the file does not say how it is written; choose another if letters are wrong"
    return (
        f'{missing}<select data-kind="encoding" data-index="{index}" aria-label="{label}" title="{title}">'
        f"{options}</select>"
    )


def was_read(number: int, refused: Sequence[str]) -> str:
    """For the page script: the file of this number is attached, or was refused with these sentences."""
    return f'<i hidden data-read="{number}" data-refused="{escape(json.dumps(refused))}"></i>'


def _sum(sizes: Sizes) -> str:
    """Of several, and of those that do not fit, the sum and the room for it."""
    if sizes.room is None or (len(sizes.tokens) < 2 and not sizes.too_long):
        return ""
    room = f"{count(sum(sizes.tokens))} tokens together; {count(max(sizes.room, 0))} fit"
    if not sizes.too_long:
        return f'<li class="od-sum">{room}</li>'
    room += ": what is sent are the parts that share words with your message, or the beginning where none does"
    more = ""
    if sizes.larger is not None:
        words = f"Raise the context to {count(sizes.larger)}"
        more = f'<button type="button" class="od-undo" data-kind="context" data-most="{sizes.larger}">{words}</button>'
    return f'<li class="od-sum od-bad">{room}. {more}</li>'


def _preview(file: PictureFile) -> str:
    small = base64.b64encode(thumbnail(file.data, PREVIEW)).decode()
    return f'<img src="data:image/jpeg;base64,{small}" alt="">'


def _chip(index: int, name: str, preview: str, about: str, told: str = "") -> str:
    name = escape(name)
    return (
        f'<li>{preview}<span>{name}</span><small>{about}</small>{told}<button type="button" data-kind="off" '
        f'data-index="{index}" aria-label="Take {name} off" title="Take it off">×</button></li>'
    )


def _name(path: Path) -> str:
    """The file's own name: one line, no invisible characters, not too long."""
    shown = "".join(c for c in " ".join(path.name.split()) if c.isprintable()) or "file"
    return shown if len(shown) <= MAX_NAME else shown[: MAX_NAME // 2] + "…" + shown[-MAX_NAME // 2 + 1 :]
