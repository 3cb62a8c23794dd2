"""Facts on the profiles page: what every model is told in this profile, added and taken out."""

from __future__ import annotations

from html import escape

import gradio as gr

from omnidraft.app.conversing import SHARE
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.chats import Fact
from omnidraft.chats.library import MAX_FACT
from omnidraft.errors import OmniDraftError
from ui.common.frame import EACH, PRIVATE, session_of
from ui.common.notes import note

HEAD = (
    "<h2>Remembered</h2><p>What every conversation of this profile begins with, for instance how to address you. "
    f"Models are told the newest facts that fit into 1/{SHARE} of their context.</p>"
)
SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-name]');
  if (button) trigger('act', {name: button.dataset.name});
});
"""


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the group where the layout stands."""
    with gr.Group(elem_classes="od-group"):
        gr.HTML(HEAD)
        shown = gr.HTML(elem_id="od-facts", js_on_load=SCRIPT)
        with gr.Row(elem_classes="od-keep"):
            fact = gr.Textbox(
                label="A fact to remember", show_label=False, placeholder="I write British English.", container=False,
                max_lines=1, max_length=MAX_FACT, elem_id="od-fact", scale=1,
            )  # fmt: skip
            keep = gr.Button("Remember", size="sm", elem_id="od-fact-keep", scale=0, min_width=0)
        said = gr.HTML(elem_id="od-facts-said")

    def arrive(request: gr.Request) -> str:
        return _list(session_of(sessions, request))

    def remember(text: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            session.store.library.save(Fact(text))
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        return {shown: _list(session), fact: "", said: ""}

    def forget(request: gr.Request, event: gr.EventData) -> dict:
        session = session_of(sessions, request)
        try:
            session.store.library.delete("fact", event._data["name"])
        except OmniDraftError as error:
            return {shown: _list(session), said: note(str(error), bad=True)}
        return {shown: _list(session), said: note("Forgotten. What was said and learned before stays.")}

    page.load(arrive, None, [shown], **PRIVATE)
    gr.on([keep.click, fact.submit], remember, [fact], [shown, fact, said], **PRIVATE)
    shown.act(forget, None, [shown, said], **EACH)


def _list(session: Session) -> str:
    facts = session.store.library.facts()
    if not facts:
        return "<p>Nothing yet.</p>"
    rows = [
        f'<li><span>{escape(fact)}</span><button type="button" data-name="{escape(fact)}" '
        f'aria-label="Forget: {escape(fact)}">Forget</button></li>' for fact in facts
    ]  # fmt: skip
    return f'<ul class="od-facts">{"".join(rows)}</ul>'
