// Several rows at once, behind rows.js. The list is drawn anew with every change: what is chosen is kept.
const picked = new Set();
let picking = false;
const pick = () => {
  const list = element.querySelector('.od-list');
  const boxes = [...element.querySelectorAll('.od-item [type=checkbox]')];
  for (const id of picked) if (!boxes.some((box) => box.value === id)) picked.delete(id);
  for (const box of boxes) box.checked = picked.has(box.value);
  list?.classList.toggle('od-picking', picking);
  const begin = element.querySelector('[data-pick=begin]');
  const word = picking ? 'Done' : 'Select';
  if (begin && begin.textContent !== word) begin.textContent = word;
  element.querySelector('.od-pick span')?.toggleAttribute('hidden', !picking || !picked.size);
  element.querySelector('[data-pick=export]')?.setAttribute('href', `/export/${[...picked].join('+')}.json`);
};
element.addEventListener('change', ({target}) => {
  if (target.type !== 'checkbox') return;
  picked[target.checked ? 'add' : 'delete'](target.value);
  pick();
});
element.addEventListener('click', (event) => {
  const what = event.target.closest('[data-pick]')?.dataset.pick;
  if (!what) return;
  const ids = [...picked];
  if (what === 'begin') picking = !picking;
  else if (what !== 'export') { picking = false; send(what, '', {ids}); }
  if (!picking) picked.clear();
  pick();
});
new MutationObserver(pick).observe(element, {childList: true, subtree: true});
pick();
