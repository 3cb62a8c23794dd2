// The larger of two files is the model, which goes first; whoever comes with it is told its name.
const input = () => element.querySelector('input[type=file]');
const say = (said, state) => trigger('act', {said, state});
const address = (file, beside) => '/model-files?' + new URLSearchParams({name: file.name, size: file.size, beside});
const sent = (file, beside) => new Promise((done) => {
  const request = new XMLHttpRequest();
  let told = Date.now();
  request.upload.onprogress = ({loaded, total}) => {
    if (Date.now() - told < 1000) return;
    told = Date.now();
    say(`${file.name}: ${Math.floor(100 * loaded / total)}%.`, 'busy');
  };
  request.upload.onload = () => say(`${file.name} is being checked.`, 'busy');
  request.onload = () => done([request.responseText, request.status === 200]);
  request.onerror = () => done([`${file.name} was not taken: the connection ended.`, false]);
  request.open('POST', address(file, beside));
  request.send(file);
});
let busy = false;
const bring = async (list) => {
  if (busy || !list.length) return;
  busy = true;
  const files = [...list].sort((one, other) => other.size - one.size);
  const lines = [];
  let good = true;
  for (const file of files) {
    const beside = files.length === 2 && file === files[1] ? files[0].name : '';
    say(`Taking ${file.name}.`, 'busy');
    const asked = await fetch(address(file, beside)).catch(() => null);
    const refusal = asked ? await asked.text() : 'The app cannot be reached.';
    const [said, taken] = refusal ? [refusal, false] : await sent(file, beside);
    lines.push(said);
    good &&= taken;
  }
  busy = false;
  say(lines.join(' '), good ? 'done' : 'refused');
};
element.addEventListener('change', () => { bring(input().files); input().value = ''; });
const page = () => document.querySelector('#od-page');
const brings = (event) => [...(event.dataTransfer?.types || [])].includes('Files') && page()?.contains(event.target);
document.addEventListener('dragover', (event) => {
  if (!brings(event)) return;
  event.preventDefault();
  page().classList.add('od-taking');
});
document.addEventListener('dragleave', (event) => {
  if (!event.relatedTarget) page()?.classList.remove('od-taking');
});
document.addEventListener('drop', (event) => {
  page()?.classList.remove('od-taking');
  if (!brings(event)) return;
  event.preventDefault();
  bring(event.dataTransfer.files);
});
