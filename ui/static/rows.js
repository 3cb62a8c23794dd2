// Clicks in the list of conversations become one event, `act`: see conversation_list.py.
const send = (kind, id, more) => trigger('act', Object.assign({kind, id, at: performance.now()}, more || {}));
const ask = (item) => {
  if (item.querySelector('.od-sure')) return;
  const sure = document.createElement('div');
  sure.className = 'od-sure';
  sure.setAttribute('role', 'alertdialog');
  sure.setAttribute('aria-label', 'Delete ' + item.querySelector('.od-row span').textContent + '?');
  sure.innerHTML = '<span>Delete?</span><button type="button" data-kind="delete">Delete</button>'
    + '<button type="button" data-kind="forget" title="For good, with what the drafter learned from it">'
    + 'Delete and forget</button>'
    + (item.closest('.od-archive') ? '' : '<button type="button" data-kind="archive">Archive</button>')
    + '<button type="button" data-kind="keep">Keep</button>';
  item.append(sure);
  sure.querySelector('[data-kind=keep]').focus();
};
const rename = (item) => {
  const row = item.querySelector('.od-row');
  if (item.querySelector('input:not([type])')) return;
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
};
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-kind]');
  if (!button || (button.href && (event.ctrlKey || event.metaKey || event.shiftKey))) return;  // a tab of its own
  event.preventDefault();
  const item = button.closest('.od-item');
  const kind = button.dataset.kind;
  if (kind === 'keep') item.querySelector('.od-sure').remove();
  else if (kind === 'ask-delete') ask(item);
  else if (kind === 'rename') rename(item);
  else send(kind, item.dataset.id);
});
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
new MutationObserver(hold).observe(element, {childList: true, subtree: true, attributeFilter: ['data-id']});
