// Sends what was chosen, and for which call.
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-choice]');
  const box = button && button.closest('[data-call]');
  if (!box) return;
  for (const other of box.querySelectorAll('button')) other.disabled = true;
  trigger('act', {message: box.dataset.message, call: box.dataset.call, choice: button.dataset.choice});
});
