"""The list of conversations as HTML, and the script that turns clicks in it into one event, `act`.

`act` carries {kind: open | rename | pin | unpin | stop | delete | forget, id, title}.
Titles come from outside and are escaped.
"""

from __future__ import annotations

import time
from html import escape

from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Hit

_PEN = "M4 20l1-4L16 5l3 3L8 19z"
_STOP = "M8 8h8v8H8z"
_PIN = "M9 4h6l-1 6 3 4H7l3-4zM12 14v6"
_BIN = "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12"
SHOWN = 300


def listing(session: Session, current: str, query: str = "") -> str:
    """The list; with a query only conversations that match, with the matching text below the title."""
    if query.strip():
        return _hits(session, session.store.search(query), current)
    chats = [c for c in session.store.conversations(SHOWN) if c.id == current or c.title != "New chat" or c.named]
    if not chats:
        return '<p class="od-none">No conversations yet.</p>'
    parts, group = [], None
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
    mark = ' aria-current="true"' if chat.id == current else ""
    title = escape(chat.title)
    stop = (
        f'<button type="button" class="od-act od-writing" data-kind="stop" aria-label="Stop the answer in {title}" '
        f'title="Stop its answer">{_icon(_STOP)}</button>'
        if writing
        else ""
    )
    pin = "Unpin" if chat.pinned else "Pin"
    extra = f"<small>{escape(snippet)}</small>" if snippet else ""
    return (
        f'<div class="od-item" data-id="{chat.id}"{mark}>'
        f'<button type="button" class="od-row" data-kind="open"><span>{title}</span>{extra}</button>'
        f'{stop}<button type="button" class="od-act" data-kind="{pin.lower()}" '
        f'aria-label="{pin} {title}" title="{pin}">{_icon(_PIN)}</button>'
        f'<button type="button" class="od-act" data-kind="rename" aria-label="Rename {title}" title="Rename">'
        f'{_icon(_PEN)}</button><button type="button" class="od-act" data-kind="ask-delete" '
        f'aria-label="Delete {title}" title="Delete">{_icon(_BIN)}</button></div>'
    )


def _icon(path: str) -> str:
    return f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{path}"/></svg>'


def _age(updated: float) -> str:
    days = (time.time() - updated) / 86400
    if days < 1:
        return "Today"
    return "This week" if days < 7 else "Earlier"


SCRIPT = """
const send = (kind, id, more) => trigger('act', Object.assign({kind, id}, more || {}));
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (!button) return;
  const item = button.closest('.od-item');
  const kind = button.dataset.kind;
  if (kind === 'open') send('open', item.dataset.id);
  else if (['delete', 'forget', 'pin', 'unpin', 'stop'].includes(kind)) send(kind, item.dataset.id);
  else if (kind === 'keep') item.querySelector('.od-sure').remove();
  else if (kind === 'ask-delete') {
    if (item.querySelector('.od-sure')) return;
    const sure = document.createElement('div');
    sure.className = 'od-sure';
    sure.setAttribute('role', 'alertdialog');
    sure.setAttribute('aria-label', 'Delete this conversation?');
    sure.innerHTML = '<span>Delete for good?</span><button type="button" data-kind="delete">Delete</button>'
      + '<button type="button" data-kind="forget" '
      + 'title="Also take back what the drafter learned from it">Delete and forget</button>'
      + '<button type="button" data-kind="keep">Keep</button>';
    item.append(sure);
    sure.querySelector('[data-kind=keep]').focus();
  } else if (kind === 'rename') {
    const row = item.querySelector('.od-row');
    if (item.querySelector('input')) return;
    const input = document.createElement('input');
    input.value = row.querySelector('span').textContent;
    input.setAttribute('aria-label', 'Title');
    input.maxLength = 120;
    row.hidden = true;
    item.prepend(input);
    input.select();
    let done = false;
    const end = (save) => {
      if (done) return;
      done = true;
      const title = input.value.trim();
      input.remove();
      row.hidden = false;
      if (save) send('rename', item.dataset.id, {title});
    };
    input.addEventListener('keydown', (key) => {
      if (key.key === 'Enter') end(true);
      if (key.key === 'Escape') { key.stopPropagation(); end(false); }
    });
    input.addEventListener('blur', () => end(true));
  }
});
"""
