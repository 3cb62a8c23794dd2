"""The part of the models page that takes a model file dropped on it, or chosen, and the routes it is sent to.

A file is a request's body, read as it comes: Gradio's own uploads are bounded, and made for what is read at once.
"""

from __future__ import annotations

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from omnidraft.app.model_import import Incoming
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from ui.common.frame import EACH, session_of
from ui.common.notes import note
from ui.models import view

CHUNK = 4 << 20  # bytes written at once
_ASK = (
    "<p>Drop a GGUF file anywhere on this page, or "
    '<label class="od-bring">choose one<input type="file" class="od-hidden" accept=".gguf" multiple></label>; '
    "it is checked, and copied to the models of this app. A projector goes with the model it is dropped with.</p>"
)
# The larger of two files is the model, which goes first; whoever comes with it is told its name.
_SCRIPT = """
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
"""


def layout() -> gr.HTML:
    return gr.HTML(_ASK, elem_id="od-bring", js_on_load=_SCRIPT)


def wire(sessions: Sessions, part: gr.HTML, said: gr.HTML, listed: gr.HTML, coverage: gr.State) -> None:
    """`said` tells how far it has come; `listed` shows the file when it is there."""

    def tell(known: dict, request: gr.Request, event: gr.EventData) -> dict:
        state, text = event._data["state"], str(event._data["said"])[:2000]
        told = {said: note(text, bad=state == "refused")}
        return told if state == "busy" else {**told, listed: view.models(session_of(sessions, request), known)}

    part.act(tell, [coverage], [said, listed], **EACH)


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """`/model-files`: GET says why a file would not be taken, before any of it is sent; POST takes it."""

    @app.get("/model-files")
    def ask(name: str, size: int, beside: str = "") -> PlainTextResponse:
        try:
            Incoming(sessions.home, name, size, beside)
        except OmniDraftError as error:
            return PlainTextResponse(str(error))
        return PlainTextResponse("")

    @app.post("/model-files")
    async def take(request: Request, name: str, size: int, beside: str = "") -> PlainTextResponse:
        try:
            incoming = Incoming(sessions.home, name, size, beside)
            await _write(incoming, request)
            return PlainTextResponse(await run_in_threadpool(incoming.take))
        except OmniDraftError as error:
            return PlainTextResponse(str(error), 422)
        except ClientDisconnect:
            return PlainTextResponse("", 499)


async def _write(incoming: Incoming, request: Request) -> None:
    held = bytearray()
    try:
        async for piece in request.stream():
            held += piece
            if len(held) >= CHUNK:
                await run_in_threadpool(incoming.write, bytes(held))
                held.clear()
        await run_in_threadpool(incoming.write, bytes(held))
    except BaseException:
        incoming.drop()
        raise
