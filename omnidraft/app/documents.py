"""The text of a PDF, Word or Excel file: a child process reads it, within limits of time, memory and text.

Knows nothing of uploads, of messages or of tokens.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from omnidraft.processes.children import Outcome, run_bounded

SUFFIXES = {".pdf": "a PDF", ".docx": "a Word", ".xlsx": "an Excel"}  # what each is called
MAX_FILE = 64_000_000  # bytes
MAX_TEXT = 2_000_000  # characters: more than any context here holds, and little enough to be kept with a message
SECONDS = 60.0
MEMORY = 1 << 30
_CHILD = "omnidraft.app.document_texts"


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
