"""One line of good or bad news, as HTML that screen readers announce."""

from __future__ import annotations

from html import escape


def note(text: str, bad: bool = False, undo: bool = False) -> str:
    """undo: with a button that takes back what is told; it works where the page has the event for it."""
    if not text:
        return ""
    button = ' <button type="button" class="od-undo">Undo</button>' if undo else ""
    kind, role = (" od-bad", "alert") if bad else ("", "status")
    return f'<div class="od-note{kind}" role="{role}">{escape(text)}{button}</div>'
