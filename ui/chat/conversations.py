"""What happens in the list of conversations: one is opened, renamed, deleted, forgotten; files of them come."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.uploads import taken
from ui.chat.conversation_list import listing
from ui.chat.events import Handlers, Updates, telling
from ui.chat.following import Followed
from ui.chat.parts import note
from ui.chat.transfer import import_file
from ui.common.events import session_of
from ui.common.notes import refused
from ui.gradio_ways import data_of

TOO_LATE = "This cannot be taken back any more: only what was deleted last can."


class Conversations(Handlers):
    """The list beside the chat."""

    def row(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> dict:
        """Something was clicked in the list, which also leads away from a conversation that is not there any more."""
        view, data = self.view, data_of(event)
        session = session_of(self.sessions, request)
        try:
            if data["kind"] == "open":
                return self._open(session, data["id"], float(data["at"]), chat, followed)
            if data["kind"] == "forget":
                said = note(session.forget(data["id"]).sentence())
                followed.pass_over(session.job)
                return view.open(session, session.shown.chat(chat), chat, {view.notice: said})
            if data["kind"] in ("delete", "archive"):
                followed.pass_over(session.job)
                return self._away(session, chat, data["kind"], data.get("ids") or [data["id"]])
            self._change(session, data["kind"], data["id"], data.get("title", ""))
        except OmniDraftError as error:
            return {view.notice: note(str(error), bad=True), view.rows: listing(session, chat or "")}
        return {view.rows: listing(session, chat or "")}

    def _open(self, session: Session, wanted: str, at: float, chat: str | None, followed: Followed) -> dict:
        """at: when it was clicked, ms. Of clicks soon after each other, whose handlers overtake each other, the last
        counts."""
        if at < followed.clicked:
            return gr.skip()
        followed.clicked = at
        return self.view.go_to(session, wanted, chat, followed)

    def _change(self, session: Session, kind: str, chat: str, title: str) -> None:
        """What a row's other buttons do."""
        match kind:
            case "stop":
                session.end_writing(chat)
            case "unarchive":
                session.store.update(chat, archived=False)
            case "pin" | "unpin":
                session.store.update(chat, pinned=kind == "pin")
            case "rename":
                session.store.rename(chat, title)

    def _away(self, session: Session, chat: str | None, kind: str, chats: list[str]) -> dict:
        """Conversations leave the list, and the page if it shows one of them; a deletion can be taken back."""
        mark = session.delete(chats) if kind == "delete" else ""
        for name in chats if kind == "archive" else ():
            session.store.update(name, archived=True, pinned=False)
        many, it = ("The conversation was", "it") if len(chats) == 1 else (f"{len(chats)} conversations were", "them")
        done = "archived" if kind == "archive" else f"deleted; what the drafter learned from {it} stays"
        said = {self.view.notice: note(f"{many} {done}.", undo=mark)}
        return self.view.open(session, session.shown.chat(chat), chat, said)

    def undo(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> dict:
        """What the notice tells of comes back, if it was deleted last, or can be read though it is damaged."""
        session = session_of(self.sessions, request)
        if data_of(event).get("kind") == "recover":
            return self._recover(session, chat, followed)
        back = session.deleted.bring_back(str(data_of(event)["mark"]))
        if not back:
            return {self.view.notice: note(TOO_LATE, bad=True)}
        return self.view.go_to(session, back[0].id, chat, followed, {self.view.notice: ""})

    def _recover(self, session: Session, chat: str | None, followed: Followed) -> dict:
        try:
            told = note(session.recover_chats())
        except OmniDraftError as error:
            return {self.view.notice: refused(error)}
        return self.view.go_to(session, session.shown.chat().id, chat, followed, {self.view.notice: told})

    def fresh(self, chat: str | None, followed: Followed, request: gr.Request) -> dict:
        session = session_of(self.sessions, request)
        return self.view.go_to(session, session.shown.new_chat().id, chat, followed)

    def search(self, text: str, chat: str | None, request: gr.Request) -> str:
        return listing(session_of(self.sessions, request), chat or "", text)

    @telling
    def import_file(self, upload: str | None, chat: str | None, followed: Followed, request: gr.Request) -> Updates:
        """A file of conversations was chosen."""
        with taken(Path(upload or "")) as file:
            session, name = self.here(request, chat)
            added, said = import_file(session.store, file)
        shown = added[-1].id if added else name
        yield self.view.go_to(session, shown, chat, followed, {self.view.notice: note(said)})
