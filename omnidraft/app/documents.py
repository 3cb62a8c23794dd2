"""The text of a PDF, Word or Excel file: a child process reads it, within limits of time, memory and text.

Knows nothing of uploads, of messages or of tokens.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from omnidraft.processes.children import Outcome, asked, run_bounded

# What runs in the child process: one file's text by the library for its kind. Whatever happens here harms nobody. Run
# by `run_bounded` and asked {"path": ..., "suffix": ..., "most": ...}. Says one line of JSON: {"text": ...} or
# {"refused": the rest of a sentence that begins with the file's name}.


UNPACKED = 256 << 20  # bytes of everything in an Office file: a page of text packs into a hundredth
ENTRIES = 20_000


class Refused(Exception):
    """The rest of a sentence that begins with the file's name."""


def main(request: dict[str, Any]) -> dict[str, str]:
    parts = {".pdf": _pdf, ".docx": _docx, ".xlsx": _xlsx}[request["suffix"]](request["path"])
    try:
        text = _joined(parts, request["most"])
    except Refused as refused:
        return {"refused": str(refused)}
    if not text.strip():
        return {"refused": "holds no text; a scan has only pictures of it."}
    return {"text": text}


def _joined(parts: Iterator[str], most: int) -> str:
    kept, length = [], 0
    for part in parts:
        length += len(part) + 1
        if length > most:
            raise Refused(f"holds more than {most:,} characters of text; attach a part of it.")
        kept.append(part)
    return "\n".join(kept).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _pdf(path: str) -> Iterator[str]:
    from pypdf import PdfReader

    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("is protected by a password; save it without one.")
    for page in reader.pages:
        yield page.extract_text().strip() + "\n"


def _docx(path: str) -> Iterator[str]:
    from docx import Document
    from docx.table import Table

    _check_zip(path)
    for block in Document(path).iter_inner_content():
        if isinstance(block, Table):
            yield from ("\t".join(cell.text for cell in row.cells) for row in block.rows)
        else:
            yield block.text


def _xlsx(path: str) -> Iterator[str]:
    from openpyxl import load_workbook

    _check_zip(path)
    with open(path, "rb") as file:  # a path would be judged by its name
        for sheet in load_workbook(file, read_only=True, data_only=True).worksheets:
            yield f"Sheet {sheet.title}:"
            sheet.reset_dimensions()  # or one cell in the last column makes every row as long
            for row in sheet.iter_rows(values_only=True):
                if line := "\t".join("" if value is None else str(value) for value in row).rstrip("\t"):
                    yield line


def _check_zip(path: str) -> None:
    """Refused where the parts unpack to far more than text can need. One that lies about it is read no further."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if len(entries) > ENTRIES or sum(entry.file_size for entry in entries) > UNPACKED:
        raise Refused("unpacks to far more than a document needs, so it was left out.")


SUFFIXES = {".pdf": "a PDF", ".docx": "a Word", ".xlsx": "an Excel"}  # what each is called
MAX_FILE = 64_000_000  # bytes
MAX_TEXT = 2_000_000  # characters: more than any context here holds, and little enough to be kept with a message
SECONDS = 60.0
MEMORY = 1 << 30
_CHILD = "omnidraft.app.documents"


class Unreadable(OmniDraftError):
    """A file's text cannot be had; the sentence says why."""


def text_of(path: Path, name: str, *, seconds: float = SECONDS, memory: int = MEMORY) -> str:
    """The text of the file at `path`, which is called `name`. Unreadable says in one sentence why there is none."""
    kind = SUFFIXES[Path(name).suffix.lower()]
    try:
        if (found := path.stat().st_size) > MAX_FILE:
            raise Unreadable(f"{name} is {size(found)}; {kind} file of up to {size(MAX_FILE)} can be attached.")
        request = {"path": str(path.resolve()), "suffix": Path(name).suffix.lower(), "most": MAX_TEXT}
        outcome = run_bounded(_CHILD, request, seconds, memory, {"OMP_NUM_THREADS": "1"})
    except OSError as error:
        raise Unreadable(f"{name} could not be read ({error.strerror or error}).") from None
    return _told(outcome, name, kind)


def _told(outcome: Outcome, name: str, kind: str) -> str:
    answer = outcome.answer if isinstance(outcome.answer, dict) else {}
    if outcome.late:
        raise Unreadable(f"Reading {name} took too long, so it was left out.")
    if refused := answer.get("refused"):
        raise Unreadable(f"{name} {refused}")
    if not isinstance(answer.get("text"), str):
        raise Unreadable(f"{name} cannot be read as {kind} file; it may be damaged or need too much memory.")
    return answer["text"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(asked())) + "\n")
