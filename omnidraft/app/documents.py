"""The text of a PDF, Word or Excel file, and what of the file is missing there: a child process reads it, within limits
of time, memory and text.

The child runs this module, is asked {"path": ..., "suffix": ..., "most": characters, "pictures": how many are wanted},
and says one line of JSON: {"text": ..., "missing": what is not in it, such as "pages 2 to 4 are pictures", "pictures":
pages as [number, JPEG in base64]} or {"refused": the rest of a sentence that begins with the file's name}. Whatever
happens there harms nobody. Word's XML is walked in document order by a few lines of our own: python-docx's paragraphs
leave out whatever stands in insertions, content controls, text boxes and notes. Knows nothing of uploads, of messages
or of tokens.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnidraft.errors import OmniDraftError
from omnidraft.format import counted, size
from omnidraft.processes.children import Outcome, asked, run_bounded

SUFFIXES = {".pdf": "a PDF", ".docx": "a Word", ".xlsx": "an Excel"}  # what each is called
MAX_FILE = 64_000_000  # bytes
MAX_TEXT = 2_000_000  # characters: more than any context here holds, and little enough to be kept with a message
SECONDS = 60.0
MEMORY = 1 << 30
_CHILD = "omnidraft.app.documents"


class Unreadable(OmniDraftError):
    """A file's text cannot be had; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """missing: what the file holds beside its text, in words, "" where that is nothing; pictures: by number the pages
    that are pictures, as JPEG files."""

    text: str
    missing: str = ""
    pictures: dict[int, bytes] = field(default_factory=dict)


def read_document(
    path: Path, name: str, pictures: int = 0, *, seconds: float = SECONDS, memory: int = MEMORY
) -> Document:
    """The file at `path`, which is called `name`, with so many of its pages that are pictures.

    Unreadable says in one sentence why it cannot be had.
    """
    kind = SUFFIXES[Path(name).suffix.lower()]
    try:
        if (found := path.stat().st_size) > MAX_FILE:
            raise Unreadable(f"{name} is {size(found)}; {kind} file of up to {size(MAX_FILE)} can be attached.")
        request = {
            "path": str(path.resolve()), "suffix": Path(name).suffix.lower(), "most": MAX_TEXT, "pictures": pictures,
        }  # fmt: skip
        outcome = run_bounded(_CHILD, request, seconds, memory, {"OMP_NUM_THREADS": "1"})
    except OSError as error:
        raise Unreadable(f"{name} could not be read ({error.strerror or error}).") from None
    return _told(outcome, name, kind)


def _told(outcome: Outcome, name: str, kind: str) -> Document:
    answer = outcome.answer if isinstance(outcome.answer, dict) else {}
    if outcome.late:
        raise Unreadable(f"Reading {name} took too long, so it was left out.")
    if refused := answer.get("refused"):
        raise Unreadable(f"{name} {refused}")
    if not isinstance(answer.get("text"), str):
        raise Unreadable(f"{name} cannot be read as {kind} file; it may be damaged or need too much memory.")
    pictures = {number: base64.b64decode(data) for number, data in answer["pictures"]}
    return Document(answer["text"], answer["missing"], pictures)


# What runs in the child.


UNPACKED = 256 << 20  # bytes of everything in an Office file: a page of text packs into a hundredth
ENTRIES = 20_000


class Refused(Exception):
    """The rest of a sentence that begins with the file's name."""


class Missing:
    """What a file holds that its text does not. pictures: how many pages are wanted as such."""

    def __init__(self, pictures: int = 0) -> None:
        self.counts = Counter[str]()  # by what it is called, in the singular
        self.pages: list[int] = []  # those without text
        self.pictures: list[tuple[int, str]] = []  # of the others
        self.wanted = pictures

    def said(self) -> str:
        parts = [_pages(self.pages)] if self.pages else []
        if self.counts:
            things = [counted(number, name) for name, number in self.counts.items()]
            verb = "is" if list(self.counts.values()) == [1] else "are"
            parts.append(f"{' and '.join(things)} {verb} not read")
        return "; ".join(parts)


def main(request: dict[str, Any]) -> dict[str, Any]:
    missing = Missing(request["pictures"])
    parts = {".pdf": _pdf, ".docx": _docx, ".xlsx": _xlsx}[request["suffix"]](request["path"], missing)
    try:
        text = _joined(parts, request["most"])
    except Refused as refused:
        return {"refused": str(refused)}
    if not (_ABSENT.sub("", text).strip() or missing.pictures):
        return {"refused": "holds no text; a scan has only pictures of it."}
    return {"text": text, "missing": missing.said(), "pictures": missing.pictures}


def _joined(parts: Iterator[str], most: int) -> str:
    kept, length = [], 0
    for part in parts:
        length += len(part) + 1
        if length > most:
            raise Refused(f"holds more than {most:,} characters of text; attach a part of it.")
        kept.append(part)
    return "\n".join(kept).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _pages(numbers: list[int]) -> str:
    """Says that pages with these numbers are pictures."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    named = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"pages {named} are pictures" if len(numbers) > 1 else f"page {named} is a picture"


# PDF


_INSTEAD, _ABSENT = "[page {} is a picture]", re.compile(r"\[page \d+ is a picture\]")
_DRAWS = re.compile(rb"(?<![^\s\])>])(?:Do|EI|[fFBb]\*?|[sS]|sh)(?!\S)")  # what leaves a mark on a page, but text


def _pdf(path: str, missing: Missing) -> Iterator[str]:
    from pypdf import PdfReader

    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("is protected by a password; save it without one.")
    for number, page in enumerate(reader.pages, 1):
        text = page.extract_text().strip()
        if not text and (drawn := page.get_contents()) is not None and _DRAWS.search(drawn.get_data()):
            if len(missing.pictures) < missing.wanted and (seen := _scan(page)):
                missing.pictures.append((number, seen))
            else:
                missing.pages.append(number)
            text = _INSTEAD.format(number)
        yield text + "\n"
        yield from _notes(page)
    for name, filled in (reader.get_fields() or {}).items():
        if (value := filled.value) is not None and str(value) not in ("", "/Off"):
            yield f"{name}: {str(value).removeprefix('/')}"


def _scan(page: Any) -> str:
    """The picture that a scanned page is, as a JPEG in base64; "" where it is made of several, or damaged."""
    from omnidraft.backends.pictures import LONGEST_SIDE

    try:
        (found,) = page.images
        image = found.image.convert("RGB").rotate(-page.rotation, expand=True)
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        image.save(made := io.BytesIO(), "JPEG")
    except Exception:  # a decoder of foreign bytes fails in every way there is
        return ""
    return base64.b64encode(made.getvalue()).decode()


def _notes(page: Any) -> Iterator[str]:
    """What people wrote on a page."""
    for entry in page.get("/Annots") or ():
        note = entry.get_object()
        if note.get("/Subtype") not in ("/Link", "/Widget", "/Popup") and str(note.get("/Contents") or "").strip():
            yield f"[note: {note['/Contents']}]"


# Word


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TEXT = {f"{_WORD}t", "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"}
_MARKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# What was taken out; what Word writes a second time for older programs; properties, which hold tab stops.
_LEFT_OUT = {f"{_WORD}{name}" for name in ("del", "moveFrom", "pPr", "rPr", "sdtPr", "tblPr", "trPr", "tcPr")} | {
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
}
_UNREAD = {
    "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic": "picture",
    "{urn:schemas-microsoft-com:vml}imagedata": "picture",
    "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart": "chart",
    "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds": "diagram",
    f"{_WORD}altChunk": "inserted file",
    f"{_WORD}subDoc": "inserted file",
}
_NOTES = {"footnote": "footnote", "endnote": "endnote", "comment": "comment"}  # elements of the parts of that name


def _docx(path: str, missing: Missing) -> Iterator[str]:
    from docx import Document as read_docx
    from docx.oxml.parser import parse_xml

    _check_zip(path)
    document = read_docx(path)
    parts = {str(part.partname): part for part in document.part.package.iter_parts()}
    beside = {name: parse_xml(part.blob) for name, part in parts.items() if _is_beside(name)}
    yield from _distinct(root for name, root in beside.items() if "header" in name)
    yield from _blocks(document.element.body, missing)
    for root in beside.values():
        for note in root:
            if (kind := _NOTES.get(_local(note))) and note.get(f"{_WORD}type") in (None, "normal"):
                yield f"[{kind} {note.get(f'{_WORD}id')}] " + "\n".join(_blocks(note, missing)).strip()
    yield from _distinct(root for name, root in beside.items() if "footer" in name)


def _is_beside(name: str) -> bool:
    return re.fullmatch(r"/word/(header|footer|footnotes|endnotes|comments)\d*\.xml", name) is not None


def _distinct(roots: Iterable[Any]) -> list[str]:
    """The texts of headers or footers, of which there may be one for each kind of page."""
    return list(dict.fromkeys(text for root in roots if (text := "\n".join(_blocks(root, Missing())).strip())))


def _blocks(element: Any, missing: Missing) -> Iterator[str]:
    """Paragraphs and rows of tables, wherever they stand in `element`."""
    for child in element:
        if child.tag in _LEFT_OUT:
            continue
        if child.tag == f"{_WORD}p":
            boxes: list[str] = []
            yield _inline(child, missing, boxes)
            yield from boxes
        elif child.tag == f"{_WORD}tr":
            cells = ("\n".join(_blocks(cell, missing)) for cell in child.iter(f"{_WORD}tc") if _row_of(cell) is child)
            yield "\t".join(cells)
        else:
            missing.counts.update([_UNREAD[child.tag]] if child.tag in _UNREAD else [])
            yield from _blocks(child, missing)


def _row_of(cell: Any) -> Any:
    return next(cell.iterancestors(f"{_WORD}tr"))


def _inline(element: Any, missing: Missing, boxes: list[str]) -> str:
    """A paragraph's text; what stands in its text boxes goes to `boxes`."""
    said = []
    for child in element:
        name = _local(child)
        if child.tag in _LEFT_OUT:
            continue
        if child.tag in _TEXT:
            said.append(child.text or "")
        elif name in _MARKS and child.tag == _WORD + name:
            said.append(_MARKS[name])
        elif name.endswith("Reference") and name.removesuffix("Reference") in _NOTES:
            said.append(f"[{name.removesuffix('Reference')} {child.get(f'{_WORD}id')}]")
        elif child.tag == f"{_WORD}sym":
            said.append(chr(int(child.get(f"{_WORD}char") or "3F", 16)))
        elif child.tag == f"{_WORD}txbxContent":
            boxes.extend(_blocks(child, missing))
        else:
            missing.counts.update([_UNREAD[child.tag]] if child.tag in _UNREAD else [])
            said.append(_inline(child, missing, boxes))
    return "".join(said)


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""  # a comment's is a function


# Excel


def _xlsx(path: str, missing: Missing) -> Iterator[str]:
    from openpyxl import load_workbook

    _check_zip(path)
    # A path would be judged by its name. A formula's value, or the formula, is read in one go, never both.
    with open(path, "rb") as file, open(path, "rb") as again:
        values = load_workbook(file, read_only=True, data_only=True)
        formulas = load_workbook(again, read_only=True)
        for sheet, written in zip(values.worksheets, formulas.worksheets, strict=True):
            yield f"Sheet {sheet.title}:"
            for one in (sheet, written):
                one.reset_dimensions()  # or one cell in the last column makes every row as long
            rows = zip(sheet.iter_rows(values_only=True), written.iter_rows(values_only=True), strict=True)
            for found, spelled in rows:
                if line := "\t".join(map(_cell, found, spelled)).rstrip("\t"):
                    yield line
    yield from _remarks(path, missing)


def _cell(value: object, formula: object) -> str:
    """A cell's value; its formula where the program that wrote it has not computed it."""
    shown = getattr(formula, "text", formula) if value is None else value
    return "" if shown is None else str(shown)


_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def _remarks(path: str, missing: Missing) -> Iterator[str]:
    """Comments on cells, and texts in shapes; charts and pictures are counted."""
    from docx.oxml.parser import parse_xml

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"xl/charts/chart\d*\.xml", name):
                missing.counts["chart"] += 1
            elif name.startswith("xl/media/"):
                missing.counts["picture"] += 1
            elif re.fullmatch(r"xl/(comments/)?comments?\d*\.xml", name):
                for comment in parse_xml(archive.read(name)).iter(f"{_SHEET}comment"):
                    yield f"[comment {comment.get('ref')}] " + "".join(t.text or "" for t in comment.iter(f"{_SHEET}t"))
            elif re.fullmatch(r"xl/drawings/drawing\d*\.xml", name):
                yield from (text.text or "" for text in parse_xml(archive.read(name)).iter(f"{_DRAWING}t"))


def _check_zip(path: str) -> None:
    """Refused where the parts unpack to far more than text can need. One that lies about it is read no further."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if len(entries) > ENTRIES or sum(entry.file_size for entry in entries) > UNPACKED:
        raise Refused("unpacks to far more than a document needs, so it was left out.")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(asked())) + "\n")
