"""Component updates of the chat page for everything that can happen on it. Holds components, never state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.app import conversing, models_list
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.attached import sizes
from omnidraft.app.conversing import draft_of, is_ready, sampling_of, thinking_words
from omnidraft.app.kept_answer import keep_target
from omnidraft.app.live import Live
from omnidraft.app.session import Session
from omnidraft.chats import Conversation, Message
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.processes.progress import Overtaken
from ui.chat import attachments, parts
from ui.chat.attachments import Attached
from ui.chat.conversation_list import listing
from ui.chat.following import Followed, follow
from ui.chat.options import Options
from ui.chat.panel import panel, summary
from ui.chat.turns import WAITING, Turns, awaited, origins, turns
from ui.common.notes import loading, note, refusal_of, refused

EDITING = {
    "user": "Editing an earlier message: sending makes a new version beside the old one, and answers it.",
    "assistant": "Editing an answer: sending keeps your words as a new version beside the old one.",
}
Starting = Callable[[], AnswerJob | None]  # None: it waits for its turn
LOADING = "*Loading the model …*"
LOOK_EVERY = 0.25  # seconds between looks at whether an answer has begun
PANEL_EVERY = 0.25  # seconds between updates of the numbers
_BEGINNINGS = futures.ThreadPoolExecutor(thread_name_prefix="begin")


@dataclass(slots=True)
class ChatView:
    """Every component that an event may change."""

    chat_id: gr.State
    editing: gr.State  # id of the user's message being edited
    attached: gr.State  # files of the message being written
    followed: gr.State  # `Followed`, the same object for as long as the page is open
    seen_idle: gr.State  # unloads for idleness this page has told of
    target: gr.Dropdown
    speculation: gr.Checkbox
    gauge: gr.HTML
    chat: gr.Chatbot
    marks: gr.HTML
    permit: gr.HTML
    notice: gr.HTML
    line: gr.HTML
    chips: gr.HTML
    reading: gr.HTML  # which file was read last, for the page script
    box: gr.Textbox
    send: gr.Button
    stop: gr.Button
    cancel: gr.Button
    side: gr.HTML
    tokens: gr.HTML
    tools: gr.Checkbox
    rows: gr.HTML
    links: gr.HTML
    options: Options

    @property
    def outputs(self) -> list[Any]:
        own = [getattr(self, f.name) for f in fields(self) if f.name != "options"]
        return [*own, self.options.chat, self.options.preset, *self.options.inputs]

    def arrival(self, session: Session, wanted: str | None) -> dict:
        """A page that was opened or reloaded; its address names the conversation that is wanted, or none."""
        models = models_list.targets(session.assistant)
        chat = session.shown.chat(wanted)
        said = "" if wanted in (None, chat.id) else parts.GONE_ELSEWHERE
        try:
            session.target_path()
        except OmniDraftError as error:
            said = str(error)
        said = session.damaged or said
        start = {
            self.target: gr.Dropdown(
                choices=models_list.choices(models, session.settings.projectors),
                value=parts.offered_target(session, chat.id),
            ),
            self.notice: note(said, bad=True, recover=bool(session.damaged)),
            self.seen_idle: session.idle_unloads,
        }
        return self.open(session, chat, None, start)

    def open(self, session: Session, chat: Conversation, before: str | None, more: dict | None = None) -> dict:
        """Show a conversation; if its answer is being written, `follow` comes next.

        What is being written stays while the conversation is the one that was shown `before`. A handler that returns
        this sends it once: of one that yields, Gradio sends the last update again at its end, over what came since.
        """
        kept = {} if chat.id == before else {**self.no_edit(session, chat.id), self.notice: ""}
        return {**self.whole(session, chat), **kept, **(more or {})}

    def go_to(
        self, session: Session, chat: str, before: str | None, followed: Followed, more: dict | None = None
    ) -> dict:
        """`open` another conversation than the page shows; nothing if it has gone on to a third meanwhile."""
        followed.leave()
        left = followed.left
        opened = self.open(session, session.shown.show(chat), before, more)
        return opened if followed.left == left else gr.skip()

    def whole(self, session: Session, chat: Conversation) -> dict:
        """Every part of the page that depends on the conversation."""
        path = session.store.path(chat.id)
        return {
            self.chat_id: chat.id,
            self.target: gr.update(value=parts.offered_target(session, chat.id)),
            self.speculation: chat.speculation,
            self.tools: gr.Checkbox(value=chat.tools is not None, info=parts.tools_info(session.tools)),
            self.links: parts.links(chat.id),
            self.rows: listing(session, chat.id),
            self.side: self.panel_of(session, chat, path),
            self.tokens: origins(parts.pieces_of(path)),
            self.gauge: parts.gauge(session, path),
            self.line: summary(self._last(session, chat, path)),
            **self._conversation(session, chat.id, path),
            **self._buttons(_is_asked(session, chat.id)),
            **self.options.show(chat, sampling_of(session, chat), thinking_words(session, chat)),
        }

    def edit(self, session: Session, message: Message) -> dict:
        """An earlier message in the box, to be sent again in another form."""
        files: list[Attached] = [*session.store.pictures.files(message.pictures), *message.files]
        return {
            **self._written(message.content, files, session, message.chat),
            self.editing: message.id,
            self.cancel: gr.Button(visible=True),
            self.notice: note(EDITING[message.role]),
        }

    def no_edit(self, session: Session, chat: str) -> dict:
        """Nothing is edited; the files are there that were attached and not sent. What stands in the box is the page
        script's: it keeps a text for every conversation."""
        files = self.attach(session.shown.unsent.get(chat, []), session, chat)
        return {**files, self.editing: None, self.cancel: gr.Button(visible=False)}

    def attach(self, files: list[Attached], session: Session, chat: str, text: str = "") -> dict:
        """Show what is attached to the message being written."""
        if not files:
            return {self.attached: files, self.chips: ""}
        found = sizes(session, session.store.get(chat), text, attachments.texts(files))
        return {self.attached: files, self.chips: attachments.chips(files, found)}

    def run(
        self,
        session: Session,
        chat: str,
        followed: Followed,
        start: Starting,
        sent: tuple[str, list[Attached]] | None = None,
        *,
        asked: str | None = None,
        above: str | None = None,
        lost: Callable[[OmniDraftError], None] | None = None,
    ) -> Iterator[dict]:
        """Start an answer, for `follow` to show.

        `sent` are the text and files that were sent for it: they leave the box, and come back if it cannot be started.
        Without them what somebody is writing stays where it is. asked: the question, shown at once, though a model may
        have to be loaded first; above: the message whose place it takes. Nothing more is shown once the page has left;
        the answer begins all the same, and what prevents that is told to `lost`.
        """
        left, unsent = followed.left, session.shown.unsent
        if sent and above is None:
            unsent.pop(chat, None)
        waiting = {} if asked is None else {self.chat: _awaiting(session, chat, asked, above)}
        leave = self._written("", unsent.get(chat, []), session, chat) if sent else {}
        yield {**leave, self.notice: "", **self._buttons(True), **waiting}
        begun = _BEGINNINGS.submit(start)
        while followed.left == left and futures.wait([begun], LOOK_EVERY).not_done:
            if asked is not None and session.loading is not None:
                yield {self.chat: _awaiting(session, chat, asked, above)}
        if followed.left != left:
            begun.add_done_callback(partial(_unseen, lost))
            return
        try:
            job = begun.result()
        except OmniDraftError as error:
            if sent and above is None:
                unsent[chat] = sent[1]
            back = self._written(*sent, session, chat) if sent else {}
            back |= self._conversation(session, chat, session.store.path(chat)) if waiting else {}
            told = {self.notice: refused(error), self.rows: listing(session, chat)}
            yield {**back, **told, **self._buttons(_is_asked(session, chat))}
            return
        path = session.store.path(chat)
        done = {self.editing: None, self.cancel: gr.Button(visible=False)} if sent else {}
        taken_back = {} if job is not None or _is_asked(session, chat) else self._buttons(False)
        yield {**done, **self._conversation(session, chat, path), self.rows: listing(session, chat), **taken_back}

    def decide(self, session: Session, chat: str, message: str, call: str, choice: str) -> Iterator[dict]:
        """Say to a call what its user said; `follow` shows how the answer goes on, if nothing else is to be decided."""
        yield {self.permit: "", self.notice: "", **self._buttons(True)}
        said = refusal_of(lambda: conversing.decide(session, chat, message, call, choice))
        yield {
            **self._conversation(session, chat, session.store.path(chat)),
            **self._buttons(session.writing(chat)),
            self.rows: listing(session, chat),
            self.notice: said,
        }

    def _written(self, text: str, files: list[Attached], session: Session, chat: str) -> dict:
        return {self.box: text, **self.attach(files, session, chat, text)}

    @property
    def moving(self) -> list[Any]:
        """What changes while an answer grows.

        Gradio works on every output of a handler at every update, changed or not, and takes that time from the thread
        that decodes: so these have a handler of their own.
        """
        return [self.chat, self.side, self.line, self.followed]

    def follow(self, session: Session, chat: str | None, followed: Followed) -> Iterator[dict]:
        """Updates while the conversation's answer is being written, unless this page has followed it already, and
        while its next question waits for its turn.

        It ends early when the page shows another conversation, or follows from elsewhere.
        """
        mine, told = followed.begin(), ""
        while chat is not None and followed.by == mine:
            job = session.job
            if job is not None and job.chat == chat and job.started != followed.started:
                with suppress(StorageError):  # another tab may delete the conversation meanwhile; `ended` says so
                    yield from self._growing(session, job, chat, lambda: followed.by == mine)
                if followed.by == mine:
                    followed.started, followed.ended = job.started, True
            elif chat in session.queue:
                followed.ended = True
                before, told = told, _waits_for(session)
                rows = shown_turns(session, chat, session.store.path(chat)).rows if told != before else gr.skip()
                yield {self.followed: followed, self.chat: rows}  # where Gradio may end this
                time.sleep(LOOK_EVERY)
            else:
                break
        yield {self.followed: followed}  # a handler that yields nothing would empty its outputs

    def ended(self, session: Session, chat: str | None, followed: Followed) -> dict:
        """The page behind an answer that was just followed to its end."""
        seen = {self.followed: followed}
        if not followed.ended:
            return seen
        followed.ended = False
        try:
            shown = {**self.whole(session, session.store.get(chat or "")), **seen}
        except StorageError:
            return {**seen, self.notice: note(parts.GONE, bad=True), **self._buttons(False)}
        job = session.job
        if job is None or job.chat != chat or not job.over:
            return shown
        said = parts.outcome(job, session.store.path(chat or ""))
        return {**shown, **({self.notice: said} if said else {}), self.line: summary(job.live)}

    def _growing(self, session: Session, job: AnswerJob, chat: str, wanted: Callable[[], bool]) -> Iterator[dict]:
        session.store.get(chat)  # StorageError if it is gone
        path, versions = session.store.path(chat), session.store.versions(chat)
        past, gain = parts.acceptance_of(path), parts.gain_of(session)
        shown, numbers = 0.0, {}
        for _ in follow(job):
            if job.over or not wanted():
                break
            now = time.monotonic()
            if now - shown >= PANEL_EVERY:
                shown = now
                plain = job.live.plain(session.plain_rounds)
                numbers = {
                    self.side: panel(job.live, None, plain=plain, past=past, gain=gain, claim=parts.TEXT_CLAIM),
                    self.line: summary(job.live),
                }
            # Numbers that did not change go along: an output left out is built anew by Gradio, which takes longer.
            yield {self.chat: turns(path, versions, (job.message, parts.spoken(job)), job.steps).rows, **numbers}

    def switch(self, session: Session, chat: str, path: Path, followed: Followed) -> Iterator[dict]:
        """Load another model, say what happened, and remember it for this conversation and for new ones. Once the page
        has left for another conversation, only the first two are its business."""
        left = followed.left
        yield {self.notice: note(f"Loading {path.stem}.")}

        def chosen() -> None:
            keep_target(session, chat, path)
            if messages := session.store.path(chat):
                session.switched[chat] = parts.describe_switch(session, messages)

        begun = _BEGINNINGS.submit(session.choose, path, chosen)
        while futures.wait([begun], LOOK_EVERY).not_done:
            if (progress := session.loading) is not None and progress.path == path:
                yield {self.notice: note(loading(progress))}
        try:
            said = begun.result()
        except Overtaken:  # who chose the other one hears of that
            return
        except OmniDraftError as error:
            yield {
                self.notice: note(str(error), bad=True),
                self.target: gr.Dropdown(value=parts.offered_target(session, chat)),
            }
            return
        messages, settings = session.store.path(chat), session.store.get(chat)
        words = " ".join([parts.describe_switch(session, messages), *said])
        told = {self.notice: note(words, more=parts.pair_numbers(session))}
        if followed.left != left:
            yield told
            return
        yield {
            **told,
            self.target: gr.Dropdown(value=str(path)),
            self.side: self.panel_of(session, settings, messages),
            self.gauge: parts.gauge(session, messages),
            self.chat: gr.Chatbot(placeholder=parts.empty_state(session, path), examples=parts.examples(path)),
            **self.options.show(settings, sampling_of(session, settings), thinking_words(session, settings)),
        }

    def idle(self, session: Session, seen: int) -> dict:
        """Say so if the models left memory since the page last looked."""
        if session.idle_unloads == seen:
            return {self.seen_idle: gr.skip()}
        told = "" if session.loaded else note(parts.idle_sentence(session))
        return {self.seen_idle: session.idle_unloads, self.notice: told, self.gauge: parts.gauge(session, [])}

    def panel_of(self, session: Session, chat: Conversation, path: list[Message]) -> str:
        last = self._last(session, chat, path)
        plain = last.plain(session.plain_rounds) if last else None
        reason, past = session.why_plain(draft_of(session, chat)), parts.acceptance_of(path)
        return panel(last, reason, plain=plain, past=past, gain=parts.gain_of(session), claim=parts.TEXT_CLAIM)

    def _last(self, session: Session, chat: Conversation, path: list[Message]) -> Live | None:
        """The numbers of the answer that is written, or was last."""
        return session.job.live if session.job is not None and session.job.chat == chat.id else parts.stored_live(path)

    def _conversation(self, session: Session, chat: str, path: list[Message]) -> dict:
        shown = shown_turns(session, chat, path)
        value: Any = shown.rows
        if not shown.rows:
            target = conversing.answering(session, chat)
            value = gr.Chatbot(
                value=[], placeholder=parts.empty_state(session, target), examples=parts.examples(target)
            )
        permit = "" if session.writing(chat) else parts.question(path)
        return {self.chat: value, self.marks: shown.marks_html(chat), self.permit: permit}

    def _buttons(self, writing: bool) -> dict:
        return {self.send: gr.Button(visible=not writing), self.stop: gr.Button(visible=writing)}


def _unseen(lost: Callable[[OmniDraftError], None] | None, begun: futures.Future) -> None:
    """An answer's beginning is over, and no page looks at it."""
    error = begun.exception()
    if lost is not None and isinstance(error, OmniDraftError):
        with suppress(StorageError):  # the conversation was deleted meanwhile
            lost(error)


def _is_asked(session: Session, chat: str) -> bool:
    """Whether an answer in this conversation is being written, or will be."""
    return session.writing(chat) or chat in session.queue


def shown_turns(session: Session, chat: str, path: list[Message]) -> Turns:
    versions, job = session.store.versions(chat), session.job
    if job is None or not session.writing(chat):
        return turns(path, versions, waits=_waits_for(session) if chat in session.queue else "")
    return turns(path, versions, (job.message, parts.spoken(job)), job.steps)


def _waits_for(session: Session) -> str:
    """What a question in the queue waits for."""
    progress = session.loading
    return WAITING if progress is None else f"*{loading(progress)} Stop takes it back.*"


def _awaiting(session: Session, chat: str, question: str, above: str | None) -> list[dict]:
    """The turns shown, then a question that is not stored yet: one with files, or with another before it."""
    path = session.store.path(chat)
    if chat in session.queue:
        return shown_turns(session, chat, path).rows
    place = next((at for at, message in enumerate(path) if message.id == above), len(path))
    rows = turns(path[:place], session.store.versions(chat)).rows
    ready, progress = is_ready(session, chat), session.loading
    words = f"*{loading(progress)}*" if progress is not None else LOADING
    return [*rows, *awaited(question, "…" if ready else words)]
