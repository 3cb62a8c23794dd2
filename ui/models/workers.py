"""The part of the models page about workers: other machines that hold layers of a target this one cannot hold alone."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import gradio as gr

from omnidraft.app import worker_list
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.app.worker_list import Named
from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from ui.common import notes
from ui.common.frame import PRIVATE, session_of
from ui.common.notes import note
from ui.models import view

SHARED = "With accounts, workers are named by whoever runs this app, with --workers."
_WHAT = (
    "<p>Machines that hold layers of a model too large for this one. Start <code>python -m omnidraft worker</code> "
    "there and reach it through <code>ssh -L</code>: the connection has neither password nor encryption of its own. "
    "Drafter, chats and learning stay here.</p>"
)
Change = Callable[[Session, str], str]
_COLUMNS = ("Worker", "State", "Memory free", "Protocol", "Round trip", "Layers", "")


class Parts:
    """own: whether one may name workers oneself."""

    def __init__(self, own: bool) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Workers</h2>" + _WHAT)
            self.listed = gr.HTML(elem_id="od-workers", js_on_load=view.SCRIPT)
            self.address = gr.Textbox(
                label="Another worker",
                info="" if own else SHARED,
                placeholder="127.0.0.1:50052" if own else "",
                interactive=own,
                max_lines=1,
                elem_id="od-worker-address",
                elem_classes="od-field",
            )
            with gr.Row(elem_classes="od-buttons"):
                self.add = gr.Button("Add", size="sm", elem_id="od-worker-add", scale=0, interactive=own)
                self.again = gr.Button("Ask again", size="sm", elem_id="od-worker-ask", scale=0)


def wire(sessions: Sessions, page: gr.Blocks, parts: Parts, said: gr.HTML) -> None:
    """What happens on `page`; `said` is where it tells what happened."""

    def changed(request: gr.Request, act: Change, text: str) -> dict:
        session = session_of(sessions, request)
        told, done = change(session, sessions.accounts is None, act, text)
        after = {parts.listed: _listed(session), parts.address: ""} if done else {}
        return {said: note(told, bad=not done), **after}

    def add(text: str, request: gr.Request) -> dict:
        return changed(request, worker_list.add, text or "")

    def remove(request: gr.Request, event: gr.EventData) -> dict:
        return changed(request, worker_list.remove, str(event._data["file"]))

    def ask(request: gr.Request) -> dict:
        return {parts.listed: _listed(session_of(sessions, request))}

    after = [said, parts.listed, parts.address]
    gr.on([parts.add.click, parts.address.submit], add, [parts.address], after, **PRIVATE)
    parts.listed.act(remove, None, after, **PRIVATE)
    gr.on([page.load, parts.again.click], ask, None, [parts.listed], **PRIVATE)  # who is away keeps nobody waiting


def change(session: Session, own: bool, act: Change, text: str) -> tuple[str, bool]:
    """(what to say, whether it was done). Who signs in may not have this machine call others: then `own` is False."""
    if not own:
        return SHARED, False
    try:
        return act(session, text), True
    except OmniDraftError as error:
        return str(error), False


def _listed(session: Session) -> str:
    named = worker_list.named(session)
    if not named:
        return '<p class="od-none">No workers are named; this machine computes alone.</p>'
    where = worker_list.plan(session)
    sentence = f'<p class="od-note">Of the loaded model: {escape(str(where))}.</p>' if where is not None else ""
    return notes.table(_COLUMNS, "".join(map(_row, named))) + sentence


def _row(worker: Named) -> str:
    found, address = worker.found, escape(str(worker.address))
    remove = f'<button type="button" data-kind="remove" data-file="{address}">Remove</button>'
    if found is None:
        state = f'<td colspan="5" class="od-bad">{escape(worker.state)}</td>'
        return f"<tr><td>{address}</td>{state}<td>{remove}</td></tr>"
    facts = (worker.state, size(found.free), found.version, f"{1000 * found.latency:.2f} ms", worker.layers or "–")
    return f"<tr>{notes.cells((address, *map(escape, facts), remove))}</tr>"
