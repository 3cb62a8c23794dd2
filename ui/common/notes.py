"""One line of good or bad news, as HTML that screen readers announce."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from omnidraft.errors import OmniDraftError


def note(text: str, bad: bool = False, undo: str = "") -> str:
    """undo: by what to take back what is told, with a button; it works where the page has the event for it."""
    if not text:
        return ""
    mark = escape(undo)
    button = f' <button type="button" class="od-undo" data-mark="{mark}">Undo</button>' if undo else ""
    kind, role = (" od-bad", "alert") if bad else ("", "status")
    return f'<div class="od-note{kind}" role="{role}">{escape(text)}{button}</div>'


def note_of(act: Callable[[], str]) -> str:
    """What came of `act`, which says it in a sentence; a refusal is bad news."""
    try:
        return note(act())
    except OmniDraftError as error:
        return note(str(error), bad=True)
