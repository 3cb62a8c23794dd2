// A list that is drawn anew has the rows unfolded that were, and the keyboard where it was.
const unfolded = new Set();
let acted = '';
element.addEventListener('click', (event) => {
  const row = event.target.closest('summary')?.parentElement;
  if (row) unfolded[row.open ? 'delete' : 'add'](row.dataset.file);
  acted = event.target.closest('button[data-kind]')?.dataset.file ?? acted;
});
new MutationObserver(() => {
  for (const row of element.querySelectorAll('details[data-file]')) {
    const open = unfolded.has(row.dataset.file);
    if (row.open !== open) row.open = open;
  }
  if (!acted || document.activeElement !== document.body) return;
  element.querySelector(`button[data-file="${CSS.escape(acted)}"]`)?.focus();
}).observe(element, {attributes: true, attributeFilter: ['open'], childList: true, subtree: true});
