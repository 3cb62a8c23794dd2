"""Text files that came with a message: how they are kept with it, and how a model reads them.

They are kept as plain JSON values in the message's meta data, so that every version and every export has them. Knows
nothing of uploads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TICKS = re.compile("`{3,}")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's name and its text."""

    name: str
    text: str

    @property
    def bytes(self) -> int:
        return len(self.text.encode())


def files_of(meta: Mapping[str, Any]) -> list[TextFile]:
    """The files in a message's meta data; what is no file there is passed over (it may come from an import)."""
    given = meta.get("files")
    found = [f for f in given if isinstance(f, Mapping)] if isinstance(given, list) else []
    return [
        TextFile(f["name"], f["text"])
        for f in found
        if isinstance(f.get("name"), str) and isinstance(f.get("text"), str)
    ]


def files_meta(files: Iterable[TextFile]) -> dict[str, Any]:
    """Meta data that keeps `files`, for a message's own; empty without files."""
    kept = [{"name": file.name, "text": file.text} for file in files]
    return {"files": kept} if kept else {}


def with_files(content: str, files: Sequence[TextFile]) -> str:
    """What a model reads: each file under its name in a fence longer than any inside it, then the message itself."""
    return "\n\n".join([*map(_block, files), content]) if files else content


def _block(file: TextFile) -> str:
    fence = "`" * max((len(run) + 1 for run in _TICKS.findall(file.text)), default=3)
    end = "" if file.text.endswith("\n") or not file.text else "\n"
    return f"{file.name}:\n{fence}\n{file.text}{end}{fence}"
