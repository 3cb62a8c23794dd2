"""Tables as HTML, in a frame that scrolls sideways where the page is narrow."""

from __future__ import annotations

from collections.abc import Sequence


def table(names: Sequence[str], rows: str) -> str:
    """`rows` are made of `cells`; the names of the columns stand above them."""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="od-scroll" tabindex="0">{body}</div>'


def cells(values: Sequence[str]) -> str:
    return "".join(f"<td>{value}</td>" for value in values)
