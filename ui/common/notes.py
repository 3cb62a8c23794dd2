"""One line of good or bad news, as HTML that screen readers announce."""

from __future__ import annotations

from html import escape


def note(text: str, bad: bool = False) -> str:
    if not text:
        return ""
    return f'<div class="od-note{" od-bad" if bad else ""}" role="{"alert" if bad else "status"}">{escape(text)}</div>'
