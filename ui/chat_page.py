"""The chat page: what stands on it and which event does what. Rendering and streaming live in modules of their own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.errors import OmniDraftError
from ui import models_list
from ui.answer_job import AnswerJob
from ui.chat_stream import follow
from ui.empty_state import EXAMPLES, empty_state
from ui.layout import mobile_bar, side_head
from ui.panel import panel, summary
from ui.request import session_of
from ui.session import Session, Sessions

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]


def build(sessions: Sessions) -> None:
    """Make the page inside the current blocks."""
    with gr.Row(elem_id="od-shell", elem_classes="od-chat-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Chat")
        with gr.Column(elem_id="od-main", scale=1, min_width=0):
            mobile_bar("Chat")
            with gr.Row(elem_id="od-top"):
                target = gr.Dropdown(label="Model", show_label=False, container=False, elem_id="od-target", min_width=160)
                state = gr.HTML(elem_id="od-state")
            chat = gr.Chatbot(
                elem_id="od-chat", show_label=False, label="Conversation", container=False, layout="panel", height=None,
                buttons=["copy"], latex_delimiters=LATEX, placeholder=empty_state(None), group_consecutive_messages=False,
                examples=[{"text": text} for text in EXAMPLES], reasoning_tags=[("<think>", "</think>")],
            )  # fmt: skip
            notice = gr.HTML(elem_id="od-notice")
            line = gr.HTML(elem_id="od-line")
            with gr.Row(elem_id="od-composer"):
                box = gr.Textbox(
                    show_label=False, label="Message", placeholder="Write a message", lines=1, max_lines=10,
                    container=False, autofocus=True, elem_id="od-box", scale=1,
                )  # fmt: skip
                send = gr.Button("Send", variant="primary", elem_id="od-send", scale=0, min_width=76)
                stop = gr.Button("Stop", variant="stop", elem_id="od-stop", visible=False, scale=0, min_width=76)
        with gr.Column(elem_id="od-aside", scale=0, min_width=0):
            side = gr.HTML(elem_id="od-live")

    outputs = [target, state, chat, notice, line, box, send, stop, side]
    view = _View(*outputs)

    def arrive(request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        yield view.arrival(session)
        if session.busy:
            yield from view.stream(session, session.job)

    def ask(text: str, request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        if not text.strip():
            yield {notice: ""}
            return
        yield from view.answer(session, text)

    def choose(path: str, request: gr.Request) -> Iterator[dict]:
        yield from view.switch(session_of(sessions, request), Path(path))

    def halt(request: gr.Request) -> None:
        session_of(sessions, request).stop()

    gr.on([box.submit, send.click], ask, [box], outputs, concurrency_limit=None, **PRIVATE)
    stop.click(halt, None, None, queue=False, **PRIVATE)
    target.input(choose, [target], outputs, concurrency_limit=None, **PRIVATE)
    chat.example_select(_example_text, None, [box], **PRIVATE).then(
        ask, [box], outputs, concurrency_limit=None, **PRIVATE
    )
    gr.context.Context.root_block.load(arrive, None, outputs, concurrency_limit=None, **PRIVATE)


def _example_text(event: gr.SelectData) -> str:
    return event.value["text"]


class _View:
    """Component updates for each thing that can happen. Holds components, never state."""

    def __init__(self, target, state, chat, notice, line, box, send, stop, side) -> None:
        self.target, self.state, self.chat, self.notice, self.line = target, state, chat, notice, line
        self.box, self.send, self.stop, self.side = box, send, stop, side

    def arrival(self, session: Session) -> dict:
        """Everything a freshly opened or reloaded page shows."""
        models = models_list.targets(models_list.scan(session.assistant))
        try:
            path = session.target_path()
            said = ""
        except OmniDraftError as error:
            path, said = None, str(error)
        return {
            self.target: gr.Dropdown(choices=models_list.choices(models), value=str(path) if path else None),
            self.chat: gr.Chatbot(value=history(session), placeholder=empty_state(path)),
            self.notice: notice_html(said),
            self.side: panel(session.job.live if session.job else None, session.why_plain()),
            **self._buttons(session.busy),
        }

    def answer(self, session: Session, text: str) -> Iterator[dict]:
        message = {"role": "user", "content": text}
        yield {
            self.box: "",
            self.chat: [*history(session), message],
            self.notice: "" if session.loaded else notice_html("Loading the model."),
            **self._buttons(True),
        }
        try:
            session.messages.append(message)
            job = session.answer(list(session.messages), session.settings.sampling, session.settings.draft,
                                 finished=session.keep)  # fmt: skip
        except OmniDraftError as error:
            session.messages.remove(message)
            yield {
                self.box: text,
                self.chat: history(session),
                self.notice: notice_html(str(error), bad=True),
                **self._buttons(session.busy),
            }
            return
        yield from self.stream(session, job)

    def stream(self, session: Session, job: AnswerJob) -> Iterator[dict]:
        for _ in follow(job):
            yield {
                self.chat: history(session),
                self.side: panel(job.live, session.why_plain()),
                self.line: summary(job.live),
                self.notice: progress(job),
                **self._buttons(not job.over),
            }

    def switch(self, session: Session, path: Path) -> Iterator[dict]:
        yield {self.notice: notice_html(f"Loading {path.stem}.")}
        try:
            said = session.choose(path)
            yield {self.notice: notice_html(" ".join([f"{path.stem} answers from now on.", *said])),
                   self.side: panel(None, session.why_plain()), self.target: gr.Dropdown(value=str(path))}  # fmt: skip
        except OmniDraftError as error:
            old = session.loaded
            yield {self.notice: notice_html(str(error), bad=True),
                   self.target: gr.Dropdown(value=str(old) if old else None)}  # fmt: skip

    def _buttons(self, writing: bool) -> dict:
        return {self.send: gr.Button(visible=not writing), self.stop: gr.Button(visible=writing)}


def history(session: Session) -> list[dict]:
    """The conversation as the chatbot takes it, the answer being written last."""
    messages = [{"role": m["role"], "content": m["content"]} for m in session.messages if m["role"] != "system"]
    if session.busy:
        messages.append({"role": "assistant", "content": session.job.text or "…"})
    return messages


def notice_html(text: str, bad: bool = False) -> str:
    if not text:
        return ""
    return f'<div class="od-note{" od-bad" if bad else ""}" role="{"alert" if bad else "status"}">{escape(text)}</div>'


def progress(job: AnswerJob) -> str:
    """What the line above the composer says about a running or finished answer."""
    if job.error:
        return notice_html(job.error, bad=True)
    said = list(job.live.notices)
    if job.over and job.live.finish_reason == "length":
        said.append("The answer reached its length limit.")
    if job.over and job.live.finish_reason == "context":
        said.append("The model's context is full.")
    if job.over and job.stopped:
        said.append("Stopped.")
    return notice_html(" ".join(said))
