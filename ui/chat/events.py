"""What happens where a conversation is shown: each handler asks the session and yields updates of components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.app import conversing
from omnidraft.app.attached import refuse_unseen
from omnidraft.app.session import Session, StillAnswering
from omnidraft.app.sessions import Sessions
from omnidraft.app.tool_use import UNSUPPORTED
from omnidraft.chats import TextFile
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.profiles.uploads import uploaded
from ui.chat import attachments
from ui.chat import options as chat_options
from ui.chat.attachments import Attached
from ui.chat.conversation_list import listing
from ui.chat.following import Followed
from ui.chat.parts import ARRIVING, GONE, note, tools_info
from ui.chat.turns import origins
from ui.chat.view import ChatView, Starting
from ui.common.events import session_of
from ui.common.frame import chat_at
from ui.common.notes import refused
from ui.gradio_ways import data_of

# What all events of the chat page start from: whose session it is, which conversation, and how a refusal is told.


Updates = Iterator[dict]


class Gone(OmniDraftError):
    """The page shows a conversation that was deleted, or a profile that this browser has left."""


def telling(handler: Callable[..., Updates]) -> Callable[..., Updates]:
    """A handler whose refusals stand in the page's message line, and leave the rest of the page as it is."""

    @wraps(handler)
    def run(self: Handlers, *given: Any) -> Updates:
        try:
            yield from handler(self, *given)
        except OmniDraftError as error:
            yield {self.view.notice: refused(error)}

    return run


@dataclass(frozen=True, slots=True)
class Handlers:
    """What all handlers of the page start from."""

    sessions: Sessions
    view: ChatView

    def here(self, request: gr.Request, chat: str | None) -> tuple[Session, str]:
        """The session the request belongs to, and the conversation its page shows; Gone if it has no such one.

        Another tab may have deleted it or gone to another profile. No other conversation takes its place then: what
        was written for one must not land in another.
        """
        session, name = self.held(request, chat)
        return session, session.shown.show(name).id

    def held(self, request: gr.Request, chat: str | None) -> tuple[Session, str]:
        """Likewise for what may arrive late: a reload comes back to the conversation it came back to before."""
        session = session_of(self.sessions, request)
        try:
            return session, session.store.get(chat or "").id
        except StorageError:
            raise Gone(GONE if chat else ARRIVING) from None


RAISED = "The context is raised, for all conversations; the next message loads the model with it."


class Answering(Handlers):
    """Arriving, asking, and what the buttons below the messages do."""

    def arrive(self, path: str, request: gr.Request) -> dict:
        return self.view.arrival(session_of(self.sessions, request), chat_at(path))

    @telling
    def ask(
        self,
        text: str,
        chat: str | None,
        editing: str | None,
        files: list[Attached],
        followed: Followed,
        request: gr.Request,
    ) -> Updates:
        view = self.view
        session, name = self.here(request, chat)
        sent = attachments.texts(files), attachments.pictures(files)
        if not text.strip():
            return iter([{view.notice: note("Write a message to send with the files.") if files else ""}])
        if editing and session.store.message(editing).role == "assistant":
            session.store.edit(editing, text, {"edited": True})
            return iter([view.open(session, session.store.get(name), None, {view.box: ""})])
        start: Starting = partial(conversing.ask, session, name, text, *sent)
        if editing:
            start = partial(conversing.edit, session, name, editing, text, *sent)
        lost = partial(conversing.refused, session, name, text, *sent, editing)
        return view.run(session, name, followed, start, (text, files), asked=text, above=editing, lost=lost)

    @telling
    def example(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.SelectData) -> Updates:
        """A suggested question was picked; what somebody is writing stays in the box."""
        session, name = self.here(request, chat)
        text = event.value["text"]
        start = partial(conversing.ask, session, name, text)
        lost = partial(conversing.refused, session, name, text, (), (), None)
        yield from self.view.run(session, name, followed, start, asked=text, lost=lost)

    def follow(self, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        yield from self.view.follow(session_of(self.sessions, request), chat, followed)

    def ended(self, chat: str | None, followed: Followed, request: gr.Request) -> dict:
        return self.view.ended(session_of(self.sessions, request), chat, followed)

    @telling
    def turn(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> Updates:
        """A button below a message."""
        session, name = self.here(request, chat)
        data = data_of(event)
        match data["kind"]:
            case "regenerate":
                yield from self.view.run(session, name, followed, partial(conversing.regenerate, session, name))
            case "continue":
                yield from self.view.run(session, name, followed, partial(conversing.resume, session, name))
            case "again":  # another tab has changed it
                yield self.view.open(session, session.store.get(name), name)
            case "list":
                yield {self.view.rows: listing(session, name)}
            case "edit":
                yield self.view.edit(session, session.store.message(data["id"]))
            case "delete":
                yield from self._delete(session, name, data["id"])
            case "fork":
                fork = session.store.fork(data["id"]).id
                told = "This is a new conversation with what was said up to there; the other one stays as it was."
                yield self.view.go_to(session, fork, name, followed, {self.view.notice: note(told)})
            case "tokens":
                yield {self.view.tokens: origins(session.store.message(data["id"]).pieces)}
            case "version":
                versions = session.store.siblings(data["id"])
                here = [m.id for m in versions].index(data["id"])
                session.store.select(versions[(here + data["step"]) % len(versions)].id)
                yield self.view.open(session, session.store.get(name), name)

    def _delete(self, session: Session, chat: str, question: str) -> Updates:
        if session.writing(chat) or chat in session.queue:
            raise StillAnswering
        session.store.delete_turn(question)
        told = "The question and its answers were deleted; what the drafter learned from them stays."
        yield self.view.open(session, session.store.get(chat), chat, {self.view.notice: note(told)})

    @telling
    def decide(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> Updates:
        """The user said whether a function may run."""
        session, name = self.here(request, chat)
        data = data_of(event)
        decided = self.view.decide(session, name, data["message"], data["call"], data["kind"])
        yield from followed.while_shown(decided)

    def cancel(self, chat: str | None, request: gr.Request) -> dict:
        """The edit is given up: what it would have changed stays as it is, and what was being written comes back, its
        text by the page script."""
        session, name = self.here(request, chat)
        return {**self.view.no_edit(session, name), self.view.notice: ""}

    def take(
        self, there: list[Attached], text: str, chat: str | None, editing: str | None, followed: Followed,
        request: gr.Request, event: gr.EventData,
    ) -> Updates:  # fmt: skip
        """A file was sent; documents take a moment to read."""
        yield from followed.while_shown(self._taken(data_of(event), there, text, chat, editing, request))

    def _taken(
        self, sent: dict[str, Any], there: list[Attached], text: str, chat: str | None, editing: str | None,
        request: gr.Request,
    ) -> Updates:  # fmt: skip
        shown: dict = {}
        refused: list[str] = []
        try:
            engine = session_of(self.sessions, request).assistant.engine
            eyes = engine.target.most_pictures if engine is not None else 0
            path = uploaded(self.sessions.home, sent["path"])
            files, refused = attachments.take([path], there, eyes)
            session, name = self.here(request, chat)
            if not editing:
                session.shown.unsent[name] = files
            shown = self.view.attach(files, session, name, text or "")
            refuse_unseen(session, attachments.pictures(files))  # again when they are sent: another model may be chosen
        except OmniDraftError as error:
            refused.append(str(error))
        yield {**shown, self.view.reading: attachments.was_read(int(sent["number"]), refused)}

    @telling
    def chip(
        self, there: list[Attached], text: str, chat: str | None, editing: str | None, request: gr.Request,
        event: gr.EventData,
    ) -> Updates:  # fmt: skip
        """A file is taken off, or read in another encoding than was guessed, or the context is raised for all."""
        session, name = self.here(request, chat)
        data, files, told = data_of(event), list(there), ""
        if data["kind"] == "context":
            session.change("model.n_ctx", int(data["most"]))
            session.unload()
            yield {**self.view.attach(files, session, name, text or ""), self.view.notice: note(RAISED)}
            return
        at = int(data["index"])
        if data["kind"] == "off":
            del files[at]
        elif isinstance(file := files[at], TextFile):
            try:
                files[at] = attachments.in_other_encoding(file, data["value"])
            except OmniDraftError as error:
                told = str(error)
        if not editing:
            session.shown.unsent[name] = files
        yield {**self.view.attach(files, session, name, text or ""), self.view.notice: note(told, bad=True)}

    def look(self, seen: int, request: gr.Request) -> dict:
        return self.view.idle(session_of(self.sessions, request), seen)

    def halt(self, chat: str | None, request: gr.Request) -> None:
        """End the answer the page shows, nobody else's."""
        session_of(self.sessions, request).stop(chat)


TOOLS_ON = "The model may ask for functions in this conversation; you decide about each call."
TOOLS_OFF = "The model is offered no functions in this conversation."


class OptionEvents(Handlers):
    """Model, speculation switch and options of the conversation."""

    @telling
    def target(self, path: str, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        yield from self.view.switch(session, name, Path(path), followed)

    @telling
    def speculate(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        changed = session.store.update(name, speculation=on)
        yield {self.view.side: self.view.panel_of(session, changed, session.store.path(name))}

    @telling
    def tools(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        """Whether the model may ask for functions; what was always allowed is asked again then. Starts the servers that
        the profile names."""
        session, name = self.here(request, chat)
        session.store.update(name, tools=() if on else None)
        if on and session.tools.listed():
            yield {self.view.notice: note("Starting the programs whose functions the model may ask for.")}
        failed = session.tools.retry() if on else []
        engine = session.assistant.engine
        known = engine is None or not on or engine.target.template.supports_tools
        told = (TOOLS_ON if on else TOOLS_OFF) if known else UNSUPPORTED.format(session.assistant.target_name)
        yield {
            self.view.tools: gr.Checkbox(info=tools_info(session.tools)),
            self.view.notice: note(" ".join([told, *failed]), bad=bool(failed) or not known),
        }

    @telling
    def keep(self, request: gr.Request, shown: str | None, chat: str, *values: Any) -> Updates:
        """Of `chat`, which may have given way to `shown` since the values were written."""
        session, name = self.held(request, chat)
        sampling = chat_options.store(session, name, *values)
        preset = {self.view.options.preset: chat_options.preset_of(sampling)} if name == shown else {}
        yield {self.view.notice: "", **preset}

    @telling
    def preset(self, wanted: str, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        values = chat_options.PRESETS.get(wanted)
        if values is None:
            yield {self.view.notice: ""}
            return
        sampling = replace(conversing.sampling_of(session, session.store.get(name)), **values)
        changed = session.store.update(name, sampling=sampling)
        yield self.view.options.show(changed, sampling, conversing.thinking_words(session, changed))
