"""What happens on the chat page's events: each handler asks the session and yields updates of components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.chats import TextFile
from omnidraft.errors import OmniDraftError
from ui import attachments, chat_options, conversing, transfer
from ui.chat_list import listing
from ui.chat_parts import note
from ui.chat_view import ChatView, Followed
from ui.conversing import shown_pieces
from ui.origins import origins
from ui.request import session_of
from ui.session import Session
from ui.sessions import Sessions

Updates = Iterator[dict]


@dataclass(frozen=True, slots=True)
class _Handlers:
    sessions: Sessions
    view: ChatView

    def _here(self, request: gr.Request, chat: str | None) -> tuple[Session, str]:
        """The session the request belongs to, and the conversation its page shows."""
        session = session_of(self.sessions, request)
        return session, session.chat(chat).id


class Answering(_Handlers):
    """Arriving, asking, and what the buttons below the messages do."""

    def arrive(self, request: gr.Request) -> Updates:
        yield from self.view.arrival(session_of(self.sessions, request))

    def ask(
        self, text: str, chat: str | None, editing: str | None, files: list[TextFile], request: gr.Request
    ) -> Updates:
        view = self.view
        session, name = self._here(request, chat)
        if not text.strip():
            yield {view.notice: note("Write a message to send with the files.") if files else ""}
        elif editing:
            yield from view.run(
                session, name, lambda: conversing.edit(session, name, editing, text, files), (text, files)
            )
        else:
            yield from view.run(session, name, lambda: conversing.ask(session, name, text, files), (text, files))

    def follow(self, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        yield from self.view.follow(*self._here(request, chat), followed)

    def ended(self, chat: str | None, followed: Followed, request: gr.Request) -> dict:
        return self.view.ended(*self._here(request, chat), followed)

    def turn(self, chat: str | None, request: gr.Request, event: gr.EventData) -> Updates:
        """A button below a message."""
        session, name = self._here(request, chat)
        data = event._data
        match data["kind"]:
            case "regenerate":
                yield from self.view.run(session, name, lambda: conversing.regenerate(session, name))
            case "continue":
                yield from self.view.run(session, name, lambda: conversing.resume(session, name))
            case "edit":
                yield self._edit(session, data["id"])
            case "tokens":
                yield {self.view.tokens: origins(shown_pieces(session.store.message(data["id"])))}
            case "version":
                versions = session.store.siblings(data["id"])
                here = [m.id for m in versions].index(data["id"])
                session.store.select(versions[(here + data["step"]) % len(versions)].id)
                yield from self.view.open(session, session.store.get(name))

    def _edit(self, session: Session, message: str) -> dict:
        view, old = self.view, session.store.message(message)
        return {
            view.box: old.content,
            view.editing: message,
            **view.attach(old.files),
            view.notice: note("Editing an earlier message: sending makes a new version beside the old one."),
        }

    def take(self, paths: list[str] | None, there: list[TextFile]) -> dict:
        """Files were chosen or dropped."""
        files, refused = attachments.take(paths or [], there)
        return {**self.view.attach(files), self.view.notice: note(" ".join(refused), bad=True)}

    def take_off(self, there: list[TextFile], event: gr.EventData) -> dict:
        index = event._data["index"]
        return self.view.attach([file for at, file in enumerate(there) if at != index])

    def look(self, chat: str | None, seen: int, request: gr.Request) -> dict:
        session, name = self._here(request, chat)
        return self.view.idle(session, name, seen)

    def halt(self, request: gr.Request) -> None:
        session_of(self.sessions, request).stop()


class Conversations(_Handlers):
    """The list beside the chat."""

    def row(self, chat: str | None, request: gr.Request, event: gr.EventData) -> Updates:
        """Something was clicked in the list."""
        view, data = self.view, event._data
        session, name = self._here(request, chat)
        try:
            if data["kind"] == "open":
                yield from view.open(session, session.show(data["id"]))
            elif data["kind"] == "rename":
                session.store.rename(data["id"], data["title"])
                yield {view.rows: listing(session, name)}
            else:
                said = self._delete(session, data["id"], forget=data["kind"] == "forget")
                yield from view.open(session, session.chat(name), {view.notice: note(said)})
        except OmniDraftError as error:
            yield {view.notice: note(str(error), bad=True), view.rows: listing(session, session.chat(chat).id)}

    def _delete(self, session: Session, chat: str, forget: bool) -> str:
        """Remove a conversation, with what was learned from it if so wished; a sentence about what happened."""
        if session.busy and session.job.chat == chat:
            session.stop()
            session.job.join(10)
        if forget:
            return session.assistant.forget(session.store, chat).sentence()
        session.store.delete(chat)
        return "The conversation was deleted; what the drafter learned from it stays."

    def fresh(self, request: gr.Request) -> Updates:
        session = session_of(self.sessions, request)
        yield from self.view.open(session, session.new_chat())

    def search(self, text: str, chat: str | None, request: gr.Request) -> str:
        session, name = self._here(request, chat)
        return listing(session, name, text)

    def bring(self, data: bytes | None, chat: str | None, request: gr.Request) -> Updates:
        """A file of conversations was chosen."""
        view = self.view
        session, name = self._here(request, chat)
        try:
            added = transfer.bring(session.store, data or b"")
        except OmniDraftError as error:
            yield {view.notice: note(str(error), bad=True)}
            return
        said = f"{len(added)} conversation{'s were' if len(added) != 1 else ' was'} imported."
        shown = session.show(added[-1].id) if added else session.chat(name)
        yield from view.open(session, shown, {view.notice: note(said)})


class Options(_Handlers):
    """Model, speculation switch and options of the conversation."""

    def target(self, path: str, chat: str | None, request: gr.Request) -> Updates:
        session, name = self._here(request, chat)
        yield from self.view.switch(session, name, Path(path))

    def speculate(self, on: bool, chat: str | None, request: gr.Request) -> dict:
        session, name = self._here(request, chat)
        changed = session.store.update(name, speculation=on)
        return {self.view.side: self.view.panel_of(session, changed, session.store.path(changed.id))}

    def keep(self, request: gr.Request, chat: str | None, *values: Any) -> dict:
        view = self.view
        session, name = self._here(request, chat)
        try:
            sampling = chat_options.store(session, name, *values)
        except OmniDraftError as error:
            return {view.notice: note(str(error), bad=True)}
        return {view.notice: "", view.options.preset: chat_options.preset_of(sampling)}

    def preset(self, name: str, chat: str | None, request: gr.Request) -> dict:
        session = session_of(self.sessions, request)
        found = session.chat(chat)
        values = chat_options.PRESETS.get(name)
        if values is None:
            return {self.view.notice: ""}
        sampling = conversing.with_values(session, found, values)
        return self.view.options.show(session.store.update(found.id, sampling=sampling), sampling)
