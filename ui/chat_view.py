"""Component updates of the chat page for everything that can happen on it. Holds components, never state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.chats import Conversation, Message
from omnidraft.config import DraftSettings
from omnidraft.errors import OmniDraftError
from ui import models_list
from ui.answer_job import AnswerJob
from ui.chat_list import listing
from ui.chat_options import Options
from ui.chat_stream import follow
from ui.conversing import sampling_of
from ui.empty_state import empty_state
from ui.format import count
from ui.live import Live
from ui.origins import origins
from ui.panel import panel, summary
from ui.session import Session
from ui.switching import describe_switch
from ui.turns import Turns, turns

PANEL_EVERY = 0.25  # seconds between updates of the numbers


@dataclass(slots=True)
class ChatView:
    chat_id: gr.State
    editing: gr.State
    target: gr.Dropdown
    speculation: gr.Checkbox
    gauge: gr.HTML
    chat: gr.Chatbot
    marks: gr.HTML
    notice: gr.HTML
    line: gr.HTML
    box: gr.Textbox
    send: gr.Button
    stop: gr.Button
    side: gr.HTML
    tokens: gr.HTML
    rows: gr.HTML
    links: gr.HTML
    options: Options

    @property
    def outputs(self) -> list[Any]:
        own = [
            self.chat_id,
            self.editing,
            self.target,
            self.speculation,
            self.gauge,
            self.chat,
            self.marks,
            self.notice,
            self.line,
            self.box,
            self.send,
            self.stop,
            self.side,
            self.tokens,
            self.rows,
            self.links,
        ]
        return [*own, self.options.preset, *self.options.inputs]

    def arrival(self, session: Session) -> Iterator[dict]:
        """A page that was opened or reloaded."""
        models = models_list.targets(models_list.scan(session.assistant))
        try:
            path: Path | None = session.target_path()
            said = ""
        except OmniDraftError as error:
            path, said = None, str(error)
        start = {
            self.target: gr.Dropdown(choices=models_list.choices(models), value=models_list.chosen(models, path)),
            self.notice: note(said, bad=True),
        }
        yield from self.open(session, session.chat(), start)

    def open(self, session: Session, chat: Conversation, more: dict | None = None) -> Iterator[dict]:
        """Show a conversation; if its answer is being written, follow it."""
        job = session.job if session.busy and session.job.chat == chat.id else None
        yield {**self.whole(session, chat), self.notice: "", **(more or {})}
        if job is not None:
            yield from self.stream(session, job)

    def whole(self, session: Session, chat: Conversation) -> dict:
        """Every part of the page that depends on the conversation."""
        path = session.store.path(chat.id)
        return {
            self.chat_id: chat.id,
            self.editing: None,
            self.speculation: chat.speculation,
            self.links: links(chat.id),
            self.rows: listing(session, chat.id),
            self.side: self._panel(session, chat, path),
            self.tokens: origins(pieces_of(session, path)),
            self.gauge: gauge(session, path),
            **self._conversation(session, chat.id, path),
            **self._buttons(session.busy and session.job.chat == chat.id),
            **self.options.show(chat, sampling_of(session, chat)),
        }

    def run(self, session: Session, chat: str, start: Callable[[], AnswerJob], text: str = "") -> Iterator[dict]:
        """Start an answer and follow it. `text` goes back into the box if it cannot be started."""
        yield {self.box: "", self.notice: "" if session.loaded else note("Loading the model."), **self._buttons(True)}
        try:
            job = start()
        except OmniDraftError as error:
            yield {self.box: text, self.notice: note(str(error), bad=True), **self._buttons(session.busy)}
            return
        path = session.store.path(chat)
        yield {self.editing: None, **self._conversation(session, chat, path), self.rows: listing(session, chat)}
        yield from self.stream(session, job)

    def stream(self, session: Session, job: AnswerJob) -> Iterator[dict]:
        """Updates while `job` runs, then the finished page."""
        chat = session.store.get(job.chat)
        path, versions = session.store.path(chat.id), session.store.versions(chat.id)
        past = acceptance_of(path)
        shown = 0.0
        for _ in follow(job):
            if job.over:
                break
            update = {self.chat: turns(path, versions, (job.message, job.text)).rows}
            now = time.monotonic()
            if now - shown >= PANEL_EVERY:
                shown = now
                baseline = session.baseline.of(session.target_name())
                update[self.side] = panel(job.live, None, baseline=baseline, past=past)
                update[self.line] = summary(job.live)
            yield update
        yield {
            **self.whole(session, session.store.get(chat.id)),
            self.notice: outcome(job),
            self.line: summary(job.live),
        }

    def switch(self, session: Session, chat: str, path: Path) -> Iterator[dict]:
        """Load another model, say what happened, and remember it for the conversation."""
        yield {self.notice: note(f"Loading {path.stem}.")}
        try:
            said = session.choose(path)
        except OmniDraftError as error:
            old = session.loaded
            yield {self.notice: note(str(error), bad=True), self.target: gr.Dropdown(value=str(old) if old else None)}
            return
        told = describe_switch(session)
        messages = session.store.path(chat)
        if messages:
            session.switched[chat] = told
        yield {
            self.notice: note(" ".join([told, *said])),
            self.target: gr.Dropdown(value=str(path)),
            self.side: self._panel(session, session.store.get(chat), messages),
            self.gauge: gauge(session, messages),
            self.chat: gr.Chatbot(placeholder=empty_state(path)),
        }

    def _conversation(self, session: Session, chat: str, path: list[Message]) -> dict:
        shown = shown_turns(session, chat, path)
        empty = empty_state(_target(session)) if not shown.rows else None
        value = gr.Chatbot(value=shown.rows, placeholder=empty) if empty else shown.rows
        return {self.chat: value, self.marks: shown.marks_html()}

    def _panel(self, session: Session, chat: Conversation, path: list[Message]) -> str:
        settings = session.settings.draft
        draft = DraftSettings(enabled=settings.enabled and chat.speculation)
        last = session.job.live if session.job is not None and session.job.chat == chat.id else stored_live(path)
        baseline = session.baseline.of(session.target_name())
        return panel(last, session.why_plain(draft), baseline=baseline, past=acceptance_of(path))

    def _buttons(self, writing: bool) -> dict:
        return {self.send: gr.Button(visible=not writing), self.stop: gr.Button(visible=writing)}


def shown_turns(session: Session, chat: str, path: list[Message]) -> Turns:
    job = session.job
    writing = (job.message, job.text) if session.busy and job.chat == chat else None
    return turns(path, session.store.versions(chat), writing)


def stored_live(path: list[Message]) -> Live | None:
    """The counters of the last stored answer, for a page opened after a restart."""
    answer = next((m for m in reversed(path) if m.role == "assistant" and m.statistics), None)
    return Live.stored(answer.statistics, answer.meta.get("disabled")) if answer else None


def acceptance_of(path: list[Message]) -> list[float]:
    """The acceptance rate of every answer that was drafted for, in order."""
    pairs = [(m.statistics.get("accepted", 0), m.statistics.get("proposed", 0)) for m in path if m.role == "assistant"]
    return [accepted / proposed for accepted, proposed in pairs if proposed]


def pieces_of(session: Session, path: list[Message]) -> list[tuple[str, str]]:
    """(text, origin) of the last answer's tokens."""
    answer = next((m for m in reversed(path) if m.role == "assistant"), None)
    return list(zip(answer.meta.get("pieces", []), answer.origins, strict=False)) if answer else []


def gauge(session: Session, path: list[Message]) -> str:
    """How much of the context the conversation takes, as of its last answer."""
    target = session.assistant.target
    answer = next((m for m in reversed(path) if m.role == "assistant" and m.statistics), None)
    if target is None or answer is None:
        return ""
    used = answer.statistics.get("prompt_tokens", 0) + answer.statistics.get("tokens", 0)
    share = min(used / target.n_ctx, 1.0)
    return (
        f'<div class="od-gauge" role="img" aria-label="{count(used)} of {count(target.n_ctx)} context tokens used" '
        f'title="{count(used)} of {count(target.n_ctx)} context tokens used"><span>{share:.0%} of context</span>'
        f'<div class="od-bar"><i style="width:{share:.1%}"></i></div></div>'
    )


def links(chat: str) -> str:
    return (
        f'<div class="od-links">Export <a href="/export/{chat}.md" download>Markdown</a>'
        f'<a href="/export/{chat}.json" download>JSON</a></div>'
    )


def note(text: str, bad: bool = False) -> str:
    if not text:
        return ""
    return f'<div class="od-note{" od-bad" if bad else ""}" role="{"alert" if bad else "status"}">{escape(text)}</div>'


def outcome(job: AnswerJob) -> str:
    """What the line above the composer says about a finished answer."""
    if job.error:
        return note(job.error, bad=True)
    said = list(job.live.notices)
    if job.live.finish_reason == "length":
        said.append("The answer reached its length limit.")
    elif job.live.finish_reason == "context":
        said.append("The model's context is full.")
    elif job.stopped:
        said.append("Stopped.")
    return note(" ".join(said))


def _target(session: Session) -> Path | None:
    try:
        return session.target_path()
    except OmniDraftError:
        return None
