"""What happens on the chat page's events: each handler asks the session and yields updates of components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.app import conversing
from omnidraft.app.conversing import shown_pieces
from omnidraft.app.session import Session, StillAnswering
from omnidraft.app.sessions import Sessions
from omnidraft.app.tool_use import UNSUPPORTED
from omnidraft.chats import TextFile
from omnidraft.chats.tags import written_tags
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.profiles.uploads import taken
from ui.chat import attachments, transfer
from ui.chat import options as chat_options
from ui.chat.conversation_list import listing
from ui.chat.origins import origins
from ui.chat.parts import ARRIVING, GONE, note
from ui.chat.stream import Followed
from ui.chat.view import ChatView
from ui.common.request import session_of

Updates = Iterator[dict]
TOOLS_ON = "The model may ask for functions in this conversation; you decide about each call."
TOOLS_OFF = "The model is offered no functions in this conversation."


class Gone(OmniDraftError):
    """The page shows a conversation that was deleted, or a profile that this browser has left."""


def telling(handler: Callable[..., Updates]) -> Callable[..., Updates]:
    """A handler whose refusals stand in the page's message line, and leave the rest of the page as it is."""

    @wraps(handler)
    def told(self: Handlers, *given: Any) -> Updates:
        try:
            yield from handler(self, *given)
        except OmniDraftError as error:
            yield {self.view.notice: note(str(error), bad=True)}

    return told


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
        session = session_of(self.sessions, request)
        try:
            return session, session.shown.show(chat or "").id
        except StorageError:
            raise Gone(GONE if chat else ARRIVING) from None


class Answering(Handlers):
    """Arriving, asking, and what the buttons below the messages do."""

    def arrive(self, request: gr.Request) -> Updates:
        yield from self.view.arrival(session_of(self.sessions, request))

    @telling
    def ask(
        self,
        text: str,
        chat: str | None,
        editing: str | None,
        files: list[TextFile],
        too_long: str,
        request: gr.Request,
    ) -> Updates:
        view = self.view
        session, name = self.here(request, chat)
        if not text.strip():
            yield {view.notice: note("Write a message to send with the files.") if files else ""}
        elif editing and session.store.message(editing).role == "assistant":
            session.store.edit(editing, text, {"edited": True})
            yield from view.open(session, session.store.get(name), None)
        elif editing:
            yield from view.run(
                session, name, lambda: conversing.edit(session, name, editing, text, files, too_long), (text, files)
            )
        else:
            yield from view.run(
                session, name, lambda: conversing.ask(session, name, text, files, too_long), (text, files)
            )

    def follow(self, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        yield from self.view.follow(session_of(self.sessions, request), chat, followed)

    def ended(self, chat: str | None, followed: Followed, request: gr.Request) -> dict:
        return self.view.ended(session_of(self.sessions, request), chat, followed)

    @telling
    def turn(self, chat: str | None, request: gr.Request, event: gr.EventData) -> Updates:
        """A button below a message."""
        session, name = self.here(request, chat)
        data = event._data
        match data["kind"]:
            case "regenerate":
                yield from self.view.run(session, name, lambda: conversing.regenerate(session, name))
            case "continue":
                yield from self.view.run(session, name, lambda: conversing.resume(session, name))
            case "edit":
                yield self.view.edit(session, session.store.message(data["id"]))
            case "delete":
                yield from self._delete(session, name, data["id"])
            case "fork":
                fork = session.shown.show(session.store.fork(data["id"]).id)
                told = "This is a new conversation with what was said up to there; the other one stays as it was."
                yield from self.view.open(session, fork, name, {self.view.notice: note(told)})
            case "tokens":
                yield {self.view.tokens: origins(shown_pieces(session.store.message(data["id"])))}
            case "version":
                versions = session.store.siblings(data["id"])
                here = [m.id for m in versions].index(data["id"])
                session.store.select(versions[(here + data["step"]) % len(versions)].id)
                yield from self.view.open(session, session.store.get(name), name)

    def _delete(self, session: Session, chat: str, question: str) -> Updates:
        if session.writing(chat):
            raise StillAnswering("An answer is still being written; stop it or wait for it.")
        session.store.delete_turn(question, later=True)
        told = "The question and its answers were deleted; what the drafter learned from them stays."
        yield from self.view.open(session, session.store.get(chat), chat, {self.view.notice: note(told)})

    @telling
    def decide(self, chat: str | None, request: gr.Request, event: gr.EventData) -> Updates:
        """The user said whether a function may run."""
        session, name = self.here(request, chat)
        data = event._data
        yield from self.view.decide(session, name, data["message"], data["call"], data["choice"])

    def cancel(self) -> dict:
        """The edit is given up: what it would have changed stays as it is."""
        return {**self.view.no_edit(), self.view.notice: ""}

    @telling
    def take(
        self, paths: list[str] | None, there: list[TextFile], text: str, chat: str | None, request: gr.Request
    ) -> Updates:
        """Files were chosen or dropped; documents take a moment to read."""
        view = self.view
        yield {view.notice: note("Reading.")}
        files, refused = attachments.take(paths or [], there)
        session, name = self.here(request, chat)
        yield {**view.attach(files, session, name, text or ""), view.notice: note(" ".join(refused), bad=True)}

    @telling
    def take_off(
        self, there: list[TextFile], text: str, chat: str | None, request: gr.Request, event: gr.EventData
    ) -> Updates:
        session, name = self.here(request, chat)
        left = [file for at, file in enumerate(there) if at != event._data["index"]]
        yield self.view.attach(left, session, name, text or "")

    def look(self, seen: int, request: gr.Request) -> dict:
        return self.view.idle(session_of(self.sessions, request), seen)

    def halt(self, chat: str | None, request: gr.Request) -> None:
        """End the answer the page shows, nobody else's."""
        session_of(self.sessions, request).stop(chat)


class Conversations(Handlers):
    """The list beside the chat."""

    def row(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> Updates:
        """Something was clicked in the list, which also leads away from a conversation that is not there any more."""
        view, data = self.view, event._data
        session = session_of(self.sessions, request)
        try:
            if data["kind"] == "open":
                shown = session.shown.show(data["id"])
                followed.leave()
                yield from view.open(session, shown, chat)
            elif data["kind"] == "stop":
                if session.writing(data["id"]):
                    session.stop(data["id"])
                    session.job.join(10)
                yield {view.rows: listing(session, chat or "")}
            elif data["kind"] in ("pin", "unpin"):
                session.store.update(data["id"], pinned=data["kind"] == "pin")
                yield {view.rows: listing(session, chat or "")}
            elif data["kind"] == "tag":
                session.store.update(data["id"], tags=written_tags(data["title"]))
                yield {view.rows: listing(session, chat or "")}
            elif data["kind"] == "rename":
                session.store.rename(data["id"], data["title"])
                yield {view.rows: listing(session, chat or "")}
            else:
                said = self._delete(session, data["id"], forget=data["kind"] == "forget")
                yield from view.open(session, session.shown.chat(chat), chat, {view.notice: note(said)})
        except OmniDraftError as error:
            yield {view.notice: note(str(error), bad=True), view.rows: listing(session, chat or "")}

    def _delete(self, session: Session, chat: str, forget: bool) -> str:
        """Remove a conversation, with what was learned from it if so wished; a sentence about what happened."""
        session.store.get(chat)  # one that is not there must not be called deleted
        job = session.job
        if session.writing(chat):
            session.stop(chat)
            job.join(10)
        if forget:
            return session.assistant.forget(session.store, chat).sentence()
        session.store.delete(chat, later=True)
        return "The conversation was deleted; what the drafter learned from it stays."

    def fresh(self, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        session = session_of(self.sessions, request)
        followed.leave()
        yield from self.view.open(session, session.shown.new_chat(), chat)

    def search(self, text: str, chat: str | None, request: gr.Request) -> str:
        return listing(session_of(self.sessions, request), chat or "", text)

    @telling
    def bring(self, upload: str | None, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        """A file of conversations was chosen."""
        with taken(Path(upload or "")) as file:
            session, name = self.here(request, chat)
            added, said = transfer.bring(session.store, file)
        shown = session.shown.show(added[-1].id if added else name)
        followed.leave()
        yield from self.view.open(session, shown, chat, {self.view.notice: note(said)})


class Options(Handlers):
    """Model, speculation switch and options of the conversation."""

    @telling
    def target(self, path: str, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        yield from self.view.switch(session, name, Path(path))

    @telling
    def speculate(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        changed = session.store.update(name, speculation=on)
        yield {self.view.side: self.view.panel_of(session, changed, session.store.path(name))}

    @telling
    def tools(self, on: bool, chat: str | None, request: gr.Request) -> Updates:
        """Whether the model may ask for functions; what was always allowed is asked again then."""
        session, name = self.here(request, chat)
        session.store.update(name, tools=() if on else None)
        engine = session.assistant.engine
        known = engine is None or not on or engine.target.template.supports_tools
        told = TOOLS_ON if on else TOOLS_OFF
        yield {self.view.notice: note(told if known else UNSUPPORTED.format(session.target_name()), bad=not known)}

    @telling
    def keep(self, request: gr.Request, chat: str | None, *values: Any) -> Updates:
        session, name = self.here(request, chat)
        sampling = chat_options.store(session, name, *values)
        yield {self.view.notice: "", self.view.options.preset: chat_options.preset_of(sampling)}

    @telling
    def preset(self, wanted: str, chat: str | None, request: gr.Request) -> Updates:
        session, name = self.here(request, chat)
        values = chat_options.PRESETS.get(wanted)
        if values is None:
            yield {self.view.notice: ""}
            return
        sampling = conversing.with_values(session, session.store.get(name), values)
        yield self.view.options.show(session.store.update(name, sampling=sampling), sampling)
