"""Tables as HTML, in a frame that scrolls sideways where the page is narrow, and lists of files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from omnidraft.format import size
from omnidraft.profiles.folders import Part


def table(names: Sequence[str], rows: str) -> str:
    """`rows` are made of `cells`; the names of the columns stand above them."""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="od-scroll" tabindex="0">{body}</div>'


def cells(values: Sequence[str]) -> str:
    return "".join(f"<td>{value}</td>" for value in values)


def files(parts: Sequence[Part], root: Path) -> str:
    """Where each part lives, and how large it is; paths inside `root` without it."""
    rows = "".join(
        f"<li><span>{escape(part.what)}</span><b>{size(part.bytes) if part.bytes else '–'}</b>"
        f"<code>{escape(_below(part.path, root))}</code></li>"
        for part in parts
    )
    return f'<p class="od-path">In {escape(str(root))}:</p><ul class="od-files">{rows}</ul>'


def _below(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
