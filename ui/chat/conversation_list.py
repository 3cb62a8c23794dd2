"""The list of the conversations as HTML.

A script turns clicks into one event, `act`. It carries {kind, id} of the button, `at`, the time by the page's clock in
ms, and the new `title` where one is renamed; `open` is a click on the row. Titles come from outside and are
escaped.
"""

from __future__ import annotations

import time
from html import escape

from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Hit
from ui.common.frame import address, script

_PEN = "M4 20l1-4L16 5l3 3L8 19z"
_BIN = "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12"
_STOP = "M8 8h8v8H8z"
_PIN = "M9 4h6l-1 6 3 4H7l3-4zM12 14v6"
_BACK = "M4 13h4l2 3h4l2-3h4M4 13v6h16v-6M12 11V3M9 6l3-3 3 3"
SHOWN = 300
_PICK = (
    '<div class="od-pick"><button type="button" data-pick="begin">Select</button><span>'
    '<button type="button" data-pick="archive">Archive</button><a data-pick="export" download>Export</a>'
    '<button type="button" data-pick="delete">Delete</button></span></div>'
)
SCRIPT = script("rows.js") + script("picks.js")


def listing(session: Session, current: str, query: str = "") -> str:
    """The list; with a query only conversations that match, with the matching text below the title."""
    if query.strip():
        return _hits(session, session.store.search(query), current)
    chats = [c for c in session.store.conversations(SHOWN) if c.id == current or c.title != "New chat" or c.named]
    if not chats:
        return '<p class="od-none">No conversations yet.</p>'
    parts, group = [_PICK], None
    for chat in chats:
        if chat.archived:
            break  # they come last
        if (name := "Pinned" if chat.pinned else _age(chat.updated)) != group:
            parts.append(f'<div class="od-age">{name}</div>')
            group = name
        parts.append(_row(chat, current, writing=session.writing(chat.id)))
    parts.append(_archived([chat for chat in chats if chat.archived], current))
    return f'<div class="od-list">{"".join(parts)}</div>'


def _archived(chats: list[Conversation], current: str) -> str:
    """Those put away, folded unless one of them is shown."""
    if not chats:
        return ""
    seen = " open" if any(chat.id == current for chat in chats) else ""
    rows = "".join(_row(chat, current) for chat in chats)
    return f'<details class="od-archive"{seen}><summary>Archived · {len(chats)}</summary>{rows}</details>'


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
    """A row is a link, which another tab can open, between a box to choose it and its buttons."""
    name, title, pin = escape(chat.id), escape(chat.title), "Unpin" if chat.pinned else "Pin"
    stop = _act("stop", "Stop the answer in", title, _STOP, "Stop its answer", "od-writing") if writing else ""
    acts = (
        _act("unarchive", "Unarchive", title, _BACK) if chat.archived else _act(pin.lower(), pin, title, _PIN),
        _act("rename", "Rename", title, _PEN),
        _act("ask-delete", "Delete", title, _BIN),
    )
    here = 'aria-current="true"' if chat.id == current else ""
    return (
        f'<div class="od-item" data-id="{name}" {here}>'
        f'<label class="od-box"><input type="checkbox" value="{name}" aria-label="Choose {title}"></label>'
        f'<a href="{address(name)}" class="od-row" data-kind="open"><span>{title}</span>'
        f"{f'<small>{escape(snippet)}</small>' if snippet else ''}</a>"
        f'{stop}<span class="od-acts">{"".join(acts)}</span></div>'
    )


def _act(kind: str, word: str, title: str, path: str, hint: str = "", mark: str = "") -> str:
    """A button of a row: what it does to which, said to a screen reader; an icon."""
    return (
        f'<button type="button" class="{f"od-act {mark}".strip()}" data-kind="{kind}" aria-label="{word} {title}" '
        f'title="{hint or word}"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="{path}"/></svg></button>'
    )


def _age(updated: float) -> str:
    days = (time.time() - updated) / 86400
    if days < 1:
        return "Today"
    return "This week" if days < 7 else "Earlier"
