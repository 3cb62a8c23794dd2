"""What happens in the list of conversations: one is opened, renamed, tagged, deleted, forgotten; files of them come."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.chats.tags import written_tags
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.uploads import taken
from ui.chat import transfer
from ui.chat.conversation_list import listing
from ui.chat.handlers import Handlers, Updates, telling
from ui.chat.parts import note
from ui.chat.stream import Followed
from ui.common.request import session_of


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
                stop_writing(session, data["id"])
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
        stop_writing(session, chat)
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
    def import_file(self, upload: str | None, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        """A file of conversations was chosen."""
        with taken(Path(upload or "")) as file:
            session, name = self.here(request, chat)
            added, said = transfer.import_file(session.store, file)
        shown = session.shown.show(added[-1].id if added else name)
        followed.leave()
        yield from self.view.open(session, shown, chat, {self.view.notice: note(said)})


def stop_writing(session: Session, chat: str) -> None:
    """End the answer that is being written in the conversation, if one is."""
    job = session.job
    if job is not None and session.writing(chat):
        session.stop(chat)
        job.join(10)
