"""Lists of things with names as HTML: any list whose rows can be renamed and deleted, and that of the conversations.

A script turns clicks into one event, `act`. It carries {kind, id} of the button, `at`, the time by the page's clock in
ms, and the new `title` where something is renamed; `open` is a click on the row. Names come from outside and are
escaped.
"""

from __future__ import annotations

import time
from collections import Counter
from html import escape

from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Hit
from ui.common.frame import address, script

_PEN = "M4 20l1-4L16 5l3 3L8 19z"
_BIN = "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12"


def named_row(
    key: str,
    name: str,
    *,
    acts: str = "",
    stop: str = "",
    extra: str = "",
    marks: str = "",
    address: str = "",
    box: str = "",
) -> str:
    """One row with its buttons: those given, rename, delete. marks: attributes of the row. extra: a line below.

    `data-learned` among the marks: it may be forgotten, too. `stop` is a button that is always seen. What has an
    address is a link, which another tab can open. `box` stands before the name.
    """
    below = f"<small>{escape(extra)}</small>" if extra else ""
    tag, kind = ("a", f'href="{escape(address)}"') if address else ("button", 'type="button"')
    return (
        f'<div class="od-item" data-id="{escape(key)}" {marks}>{box}'
        f'<{tag} {kind} class="od-row" data-kind="open"><span>{escape(name)}</span>{below}</{tag}>'
        f'{stop}<span class="od-acts">{acts}{act("rename", "Rename", name, _PEN)}'
        f"{act('ask-delete', 'Delete', name, _BIN)}</span></div>"
    )


def act(kind: str, word: str, name: str, path: str, hint: str = "", mark: str = "") -> str:
    """A button of a row: what it does to which, said to a screen reader; an icon."""
    return (
        f'<button type="button" class="{f"od-act {mark}".strip()}" data-kind="{kind}" '
        f'aria-label="{escape(f"{word} {name}")}" '
        f'title="{escape(hint or word)}"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="{path}"/></svg></button>'
    )


SCRIPT = script("rows.js")


_STOP = "M8 8h8v8H8z"
_PIN = "M9 4h6l-1 6 3 4H7l3-4zM12 14v6"
_TAG = "M4 4h8l8 8-8 8-8-8zM8.5 8.5h.01"
_BACK = "M4 13h4l2 3h4l2-3h4M4 13v6h16v-6M12 11V3M9 6l3-3 3 3"
SHOWN = 300
SHOWN_TAGS = 12
_PICK = (
    '<div class="od-pick"><button type="button" data-pick="begin">Select</button><span>'
    '<button type="button" data-pick="archive">Archive</button><a data-pick="export" download>Export</a>'
    '<button type="button" data-pick="delete">Delete</button></span></div>'
)
PICK_SCRIPT = script("picks.js")


def listing(session: Session, current: str, query: str = "") -> str:
    """The list; with a query only conversations that match, with the matching text below the title."""
    if query.strip():
        return _hits(session, session.store.search(query), current)
    chats = [c for c in session.store.conversations(SHOWN) if c.id == current or c.title != "New chat" or c.named]
    if not chats:
        return '<p class="od-none">No conversations yet.</p>'
    parts, group = [_PICK, _tags(chats)], None
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
    stop = act("stop", "Stop the answer in", chat.title, _STOP, "Stop its answer", "od-writing") if writing else ""
    pin = "Unpin" if chat.pinned else "Pin"
    top = act("unarchive", "Unarchive", chat.title, _BACK) if chat.archived else act(pin.lower(), pin, chat.title, _PIN)
    acts = act("tag", "Tags of", chat.title, _TAG, "Tags") + top
    title = escape(chat.title)
    box = f'<label class="od-box"><input type="checkbox" value="{chat.id}" aria-label="Choose {title}"></label>'
    marks = f'data-learned data-tags="{escape(", ".join(chat.tags))}"'
    marks += ' aria-current="true"' if chat.id == current else ""
    below = "  ".join(filter(None, [" ".join(f"#{tag}" for tag in chat.tags), snippet]))
    row = {"acts": acts, "stop": stop, "extra": below, "marks": marks, "address": address(chat.id)}
    return named_row(chat.id, chat.title, box=box, **row)


def _tags(chats: list[Conversation]) -> str:
    """The tags there are, those used most first; a click filters."""
    counted = Counter(tag for chat in chats for tag in chat.tags)
    if not counted:
        return ""
    made = "".join(
        f'<button type="button" data-kind="filter" data-tag="{escape(tag)}" aria-pressed="false">'
        f"#{escape(tag)}</button>"
        for tag, _ in counted.most_common(SHOWN_TAGS)
    )
    return f'<div class="od-tags" role="group" aria-label="Show only">{made}</div>'


def _age(updated: float) -> str:
    days = (time.time() - updated) / 86400
    if days < 1:
        return "Today"
    return "This week" if days < 7 else "Earlier"
