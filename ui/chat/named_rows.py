"""A list of things with names as HTML, and the script that turns clicks in it into one event, `act`.

`act` carries {kind, id} of the button, `at`, the time by the page's clock in ms, and the new `title` where something is
renamed; `open` is a click on the row. Names come from outside and are escaped.
"""

from __future__ import annotations

from html import escape

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


SCRIPT = """
const send = (kind, id, more) => trigger('act', Object.assign({kind, id, at: performance.now()}, more || {}));
const ask = (item) => {
  if (item.querySelector('.od-sure')) return;
  const sure = document.createElement('div');
  sure.className = 'od-sure';
  sure.setAttribute('role', 'alertdialog');
  sure.setAttribute('aria-label', 'Delete ' + item.querySelector('.od-row span').textContent + '?');
  const forget = '<button type="button" data-kind="forget" '
    + 'title="For good, with what the drafter learned from it">Delete and forget</button>'
    + (item.closest('.od-archive') ? '' : '<button type="button" data-kind="archive">Archive</button>');
  const chat = item.dataset.learned !== undefined;
  sure.innerHTML = `<span>${chat ? 'Delete?' : 'Delete for good?'}</span>`
    + '<button type="button" data-kind="delete">Delete</button>' + (chat ? forget : '')
    + '<button type="button" data-kind="keep">Keep</button>';
  item.append(sure);
  sure.querySelector('[data-kind=keep]').focus();
};
const write = (item, kind, text, label) => {
  const row = item.querySelector('.od-row');
  if (item.querySelector('input:not([type])')) return;
  const input = document.createElement('input');
  input.value = text;
  input.setAttribute('aria-label', label);
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
    if (save) send(kind, item.dataset.id, {title});
  };
  input.addEventListener('keydown', (key) => {
    if (key.key === 'Enter') end(true);
    if (key.key === 'Escape') { key.stopPropagation(); end(false); }
  });
  input.addEventListener('blur', () => end(true));
};
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-kind]');
  if (!button || (button.href && (event.ctrlKey || event.metaKey || event.shiftKey))) return;  // a tab of its own
  event.preventDefault();
  const item = button.closest('.od-item');  // none around a tag to filter by
  const kind = button.dataset.kind;
  if (kind === 'keep') item.querySelector('.od-sure').remove();
  else if (kind === 'ask-delete') ask(item);
  else if (kind === 'rename') write(item, 'rename', item.querySelector('.od-row span').textContent, 'Title');
  else if (kind === 'tag') write(item, 'tag', item.dataset.tags, 'Tags, between commas');
  else if (kind === 'filter') { chosen = chosen === button.dataset.tag ? '' : button.dataset.tag; filter(); }
  else send(kind, item.dataset.id);
});
// Tags: a click on one leaves only the rows that have it, until it is clicked again or nothing has it any more.
let chosen = '';
const filter = () => {
  const buttons = [...element.querySelectorAll('[data-kind=filter]')];
  if (!buttons.some((button) => button.dataset.tag === chosen)) chosen = '';
  for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset.tag === chosen));
  const has = (item) => !chosen || (item.dataset.tags || '').split(', ').includes(chosen);
  for (const item of element.querySelectorAll('.od-item')) item.hidden = !has(item);
  for (const age of element.querySelectorAll('.od-age')) {
    let next = age.nextElementSibling;
    while (next?.hidden) next = next.nextElementSibling;
    age.hidden = !next?.classList.contains('od-item');
  }
};
// The list is drawn over with every change, and its elements become other rows: the keyboard stays at the same one.
let held = null;
document.addEventListener('focusin', (event) => {
  const item = element.contains(event.target) ? event.target.closest('.od-item') : null;
  held = item && {id: item.dataset.id, kind: event.target.dataset.kind || 'open'};
});
document.addEventListener('pointerdown', (event) => { if (!element.contains(event.target)) held = null; });
const hold = () => {
  const at = document.activeElement;
  const elsewhere = at !== document.body && !element.contains(at);
  if (!held || elsewhere || at.closest('.od-sure') || at.tagName === 'INPUT') return;
  const button = element.querySelector(`.od-item[data-id="${CSS.escape(held.id)}"] [data-kind="${held.kind}"]`);
  if (button !== at) button?.focus();
};
new MutationObserver(() => { filter(); hold(); }).observe(
  element, {childList: true, subtree: true, attributeFilter: ['data-id']},
);
"""
