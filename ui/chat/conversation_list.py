"""The list of conversations as HTML. What is clicked in it becomes an event by the script of `named_rows`.

Titles come from outside and are escaped.
"""

from __future__ import annotations

import time
from collections import Counter
from html import escape

from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Hit
from ui.chat.named_rows import act, named_row
from ui.common.layout import address

_STOP = "M8 8h8v8H8z"
_PIN = "M9 4h6l-1 6 3 4H7l3-4zM12 14v6"
_TAG = "M4 4h8l8 8-8 8-8-8zM8.5 8.5h.01"
SHOWN = 300
SHOWN_TAGS = 12


def listing(session: Session, current: str, query: str = "") -> str:
    """The list; with a query only conversations that match, with the matching text below the title."""
    if query.strip():
        return _hits(session, session.store.search(query), current)
    chats = [c for c in session.store.conversations(SHOWN) if c.id == current or c.title != "New chat" or c.named]
    if not chats:
        return '<p class="od-none">No conversations yet.</p>'
    parts, group = [_tags(chats)], None
    for chat in chats:
        if (name := "Pinned" if chat.pinned else _age(chat.updated)) != group:
            parts.append(f'<div class="od-age">{name}</div>')
            group = name
        parts.append(_row(chat, current, writing=session.writing(chat.id)))
    return f'<div class="od-list">{"".join(parts)}</div>'


def _hits(session: Session, hits: list[Hit], current: str) -> str:
    if not hits:
        return '<p class="od-none">Nothing found.</p>'
    best: dict[str, Hit] = {}
    for hit in hits:
        if hit.conversation.id not in best or best[hit.conversation.id].message is None:
            best[hit.conversation.id] = hit
    rows = [
        _row(hit.conversation, current, hit.snippet if hit.message else "", session.writing(hit.conversation.id))
        for hit in best.values()
    ]
    return f'<div class="od-list">{"".join(rows)}</div>'


def _row(chat: Conversation, current: str, snippet: str = "", writing: bool = False) -> str:
    stop = act("stop", "Stop the answer in", chat.title, _STOP, "Stop its answer", "od-writing") if writing else ""
    pin = "Unpin" if chat.pinned else "Pin"
    acts = act("tag", "Tags of", chat.title, _TAG, "Tags") + act(pin.lower(), pin, chat.title, _PIN)
    marks = f'data-learned data-tags="{escape(", ".join(chat.tags), quote=True)}"'
    marks += ' aria-current="true"' if chat.id == current else ""
    below = "  ".join(filter(None, [" ".join(f"#{tag}" for tag in chat.tags), snippet]))
    return named_row(chat.id, chat.title, acts=acts, stop=stop, extra=below, marks=marks, address=address(chat.id))


def _tags(chats: list[Conversation]) -> str:
    """The tags there are, those used most first; a click filters."""
    counted = Counter(tag for chat in chats for tag in chat.tags)
    if not counted:
        return ""
    made = "".join(
        f'<button type="button" data-kind="filter" data-tag="{escape(tag, quote=True)}" aria-pressed="false">'
        f"#{escape(tag)}</button>"
        for tag, _ in counted.most_common(SHOWN_TAGS)
    )
    return f'<div class="od-tags" role="group" aria-label="Show only">{made}</div>'


def _age(updated: float) -> str:
    days = (time.time() - updated) / 86400
    if days < 1:
        return "Today"
    return "This week" if days < 7 else "Earlier"
