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

    def row(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> dict:
        """Something was clicked in the list, which also leads away from a conversation that is not there any more."""
        view, data = self.view, event._data
        session = session_of(self.sessions, request)
        try:
            if data["kind"] == "open":
                shown = session.shown.show(data["id"])
                followed.leave()
                return view.open(session, shown, chat)
            if data["kind"] in ("delete", "forget"):
                said = self._delete(session, data["id"], forget=data["kind"] == "forget")
                return view.open(session, session.shown.chat(chat), chat, {view.notice: note(said)})
            self._change(session, data["kind"], data["id"], data.get("title", ""))
        except OmniDraftError as error:
            return {view.notice: note(str(error), bad=True), view.rows: listing(session, chat or "")}
        return {view.rows: listing(session, chat or "")}

    def _change(self, session: Session, kind: str, chat: str, title: str) -> None:
        """What a row's other buttons do."""
        match kind:
            case "stop":
                stop_writing(session, chat)
            case "pin" | "unpin":
                session.store.update(chat, pinned=kind == "pin")
            case "tag":
                session.store.update(chat, tags=written_tags(title))
            case "rename":
                session.store.rename(chat, title)

    def _delete(self, session: Session, chat: str, forget: bool) -> str:
        """Remove a conversation, with what was learned from it if so wished; a sentence about what happened."""
        session.store.get(chat)  # one that is not there must not be called deleted
        stop_writing(session, chat)
        if forget:
            return session.assistant.forget(session.store, chat).sentence()
        session.store.delete(chat, later=True)
        return "The conversation was deleted; what the drafter learned from it stays."

    def fresh(self, chat: str | None, followed: Followed, request: gr.Request) -> dict:
        session = session_of(self.sessions, request)
        followed.leave()
        return self.view.open(session, session.shown.new_chat(), chat)

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
        yield self.view.open(session, shown, chat, {self.view.notice: note(said)})


def stop_writing(session: Session, chat: str) -> None:
    """End the answer that is being written in the conversation, if one is."""
    job = session.job
    if job is not None and session.writing(chat):
        session.stop(chat)
        job.join(10)
