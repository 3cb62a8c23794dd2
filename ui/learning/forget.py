"""The part of the Learning page that takes things back: one conversation, or everything, with what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from ui.common.layout import PRIVATE
from ui.common.notes import note, note_of
from ui.common.request import session_of

WORDS = "forget everything"
MOST = 500  # conversations offered


class Parts:
    """The part's components, made where the layout stands."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group", elem_id="od-forget"):
            gr.HTML(
                "<h2>Forget</h2><p>A conversation leaves the list, the replay, the n-gram cache and every version that "
                "was trained on it; what is left of the replay trains the drafter anew. Files are overwritten, not "
                "only removed.</p>"
            )
            self.chat = gr.Dropdown([], label="Conversation", elem_id="od-forget-chat", elem_classes="od-field")
            self.forget = gr.Button("Forget this conversation", size="sm", elem_id="od-forget-one", scale=0)
            with gr.Row(visible=False, elem_classes="od-buttons", elem_id="od-forget-sure") as self.sure:
                gr.HTML("<p>It cannot be brought back.</p>")
                self.yes = gr.Button("Forget it", size="sm", variant="stop", elem_id="od-forget-yes", scale=0)
                self.no = gr.Button("Keep it", size="sm", elem_id="od-forget-no", scale=0)
            gr.HTML(
                "<h3>Everything</h3><p>All conversations, caches, answers kept to learn from and versions of this "
                "profile. Only the settings stay.</p>"
            )
            self.typed = gr.Textbox(
                label=f"Type “{WORDS}” to be sure", max_lines=1, elem_id="od-forget-typed", elem_classes="od-field"
            )
            look = {"size": "sm", "variant": "stop", "scale": 0}
            self.everything = gr.Button("Forget everything", elem_id="od-forget-all", **look)
        self.shown = [self.chat, self.sure, self.typed]  # what `arrive` fills


def arrive(session: Session, parts: Parts) -> dict:
    """The conversations to choose from; nothing is about to be forgotten."""
    found = session.store.conversations(MOST)
    choices = [
        (f"{c.title or 'New chat'}, {time.strftime('%d %b %H:%M', time.localtime(c.updated))}", c.id) for c in found
    ]
    return {parts.chat: gr.Dropdown(choices=choices, value=None), parts.sure: gr.Row(visible=False), parts.typed: ""}


def wire(
    sessions: Sessions, parts: Parts, said: gr.HTML, also: list[gr.Component], look: Callable[[Session], dict]
) -> None:
    """`also` and `look`: what the rest of the page shows afterwards."""
    outputs = [said, *parts.shown, *also]

    def ask(chat: str | None) -> dict:
        if chat is None:
            return {said: note("Choose a conversation first.", bad=True)}
        return {said: "", parts.sure: gr.Row(visible=True)}

    def done(session: Session, act: Callable[[], Any]) -> dict:
        session.deleted.forget()
        return {said: note_of(lambda: act().sentence()), **arrive(session, parts), **look(session)}

    def forget(chat: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return done(session, lambda: session.assistant.forget(session.store, chat))

    def forget_everything(text: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        if (text or "").strip().lower() != WORDS:
            return {said: note(f"Nothing was forgotten: type “{WORDS}” first.", bad=True)}
        return done(session, lambda: session.assistant.forget_everything(session.store))

    parts.forget.click(ask, [parts.chat], [said, parts.sure], **PRIVATE)
    parts.no.click(lambda: gr.Row(visible=False), None, [parts.sure], **PRIVATE)
    parts.yes.click(forget, [parts.chat], outputs, **PRIVATE)
    gr.on([parts.everything.click, parts.typed.submit], forget_everything, [parts.typed], outputs, **PRIVATE)
