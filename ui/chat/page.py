"""The chat page: what stands where, and which event does what. What is shown is `view`'s business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.profiles.uploads import taken
from ui.chat.conversation_list import SCRIPT, listing
from ui.chat.events import Answering, Handlers, OptionEvents, Updates, telling
from ui.chat.following import Followed
from ui.chat.options import Options
from ui.chat.parts import TOOLS, arriving, examples, note
from ui.chat.transfer import import_file
from ui.chat.view import ChatView
from ui.common.events import session_of
from ui.common.frame import BARE, SMALL, mobile_bar, side_head
from ui.common.notes import CLICKS, refused
from ui.gradio_ways import EACH, LAST, PRIVATE, data_of

LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
# The page script calls this with what was clicked below a message.
BUS = "window.odTurn = (detail) => trigger('act', detail);"
READ = "window.odRead = (detail) => trigger('act', detail);"  # with a file that was sent
ASIDE_BUTTON = (
    '<button type="button" data-od="aside" aria-label="Speed and options" aria-expanded="false">'
    '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6"/></svg>'
    "</button>"
)
IDLE_LOOK = 5.0  # seconds between a page's questions whether the model is still in memory


class Page:
    """The page's components, made inside the current blocks. view: those that an event may change; the others only
    start events."""

    def __init__(self) -> None:
        with gr.Row(elem_id="od-shell", elem_classes="od-chat-shell"):
            with gr.Column(elem_id="od-side", scale=0, min_width=0):
                self._side()
            with gr.Column(elem_id="od-main", scale=1, min_width=0):
                mobile_bar("Chat")
                self._conversation()
                self._composer()
            with gr.Column(elem_id="od-aside", scale=0, min_width=0):
                self._aside()
        self.chat_id, self.editing, self.attached = gr.State(None), gr.State(None), gr.State([])
        self.followed, self.seen_idle, self.tick = gr.State(Followed()), gr.State(0), gr.Timer(IDLE_LOOK)
        self.view = ChatView(**{field.name: vars(self)[field.name] for field in fields(ChatView)})

    def _side(self) -> None:
        """Names, pages, the list of conversations, import and export."""
        side_head("Chat")
        self.new = gr.Button("New chat", elem_id="od-new", size="sm")
        self.query = gr.Textbox(
            label="Search conversations", placeholder="Search", elem_id="od-search", max_lines=1, **BARE
        )
        self.rows = gr.HTML(elem_id="od-rows", js_on_load=SCRIPT)
        with gr.Row(elem_id="od-transfer"):
            self.links = gr.HTML(elem_id="od-links")
            self.upload = gr.UploadButton(
                "Import", file_types=[".json", ".zip"], elem_id="od-import", min_width=0, **SMALL
            )

    def _conversation(self) -> None:
        """The model, the drafting switch, how full the context is; the turns, and the lines below them."""
        with gr.Row(elem_id="od-top"):
            self.target = gr.Dropdown(label="Model", elem_id="od-target", min_width=120, filterable=False, **BARE)
            self.speculation = gr.Checkbox(
                label="Drafting", value=True, container=False, elem_id="od-spec", scale=0, min_width=0
            )
            self.gauge = gr.HTML(elem_id="od-state")
            gr.HTML(ASIDE_BUTTON, elem_id="od-aside-button")
        self.chat = gr.Chatbot(
            label="Conversation", elem_id="od-chat", layout="panel", height=None, buttons=[], latex_delimiters=LATEX,
            placeholder=arriving(), group_consecutive_messages=False, examples=examples(None),
            autoscroll=False,  # turns.js does it: Gradio's own pulls readers down who have scrolled up a little
            **BARE,
        )  # fmt: skip
        self.marks = gr.HTML(elem_id="od-bus", js_on_load=BUS)
        self.permit = gr.HTML(elem_id="od-permit", js_on_load=CLICKS)
        self.notice = gr.HTML(elem_id="od-notice", js_on_load=CLICKS)
        self.line = gr.HTML(elem_id="od-line")

    def _composer(self) -> None:
        """Where a message is written: its files above, then the box between its buttons."""
        self.reading = gr.HTML(elem_id="od-reading", js_on_load=READ)
        self.chips = gr.HTML(elem_id="od-attached", js_on_load=CLICKS)
        with gr.Row(elem_id="od-composer"):
            gr.UploadButton(  # for its dialog; files.js takes what is chosen
                "Attach pictures, text, PDF, Word or Excel files", file_count="multiple", elem_id="od-attach",
                min_width=0, **SMALL,
            )  # fmt: skip
            self.box = gr.Textbox(
                label="Message", placeholder="Write a message", lines=1, max_lines=10, elem_id="od-box", scale=1, **BARE
            )
            self.cancel = gr.Button("Cancel", elem_id="od-cancel", visible=False, scale=0, min_width=76)
            self.send = gr.Button("Send", variant="primary", elem_id="od-send", scale=0, min_width=76)
            self.stop = gr.Button("Stop", variant="stop", elem_id="od-stop", visible=False, scale=0, min_width=76)

    def _aside(self) -> None:
        """Speed, origins of the tokens, options."""
        with gr.Tabs(elem_id="od-tabs"):
            with gr.Tab("Speed", id="speed"):
                self.side = gr.HTML(elem_id="od-live")
            with gr.Tab("Tokens", id="tokens"):
                self.tokens = gr.HTML(elem_id="od-origins")
            with gr.Tab("Options", id="options"):
                self.tools = gr.Checkbox(label="Tools", info=TOOLS, elem_id="od-tools", container=False)
                self.options = Options()


# What happens in the list of conversations: one is opened, renamed, deleted, forgotten; files of them come.


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
                session.store.get(data["id"])  # one that is not there must not be called deleted
                session.shown.unsent.pop(data["id"], None)
                stop_writing(session, data["id"])
                said = note(session.assistant.forget(session.store, data["id"]).sentence())
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
                stop_writing(session, chat)
            case "unarchive":
                session.store.update(chat, archived=False)
            case "pin" | "unpin":
                session.store.update(chat, pinned=kind == "pin")
            case "rename":
                session.store.rename(chat, title)

    def _away(self, session: Session, chat: str | None, kind: str, chats: list[str]) -> dict:
        """Conversations leave the list, and the page if it shows one of them; a deletion can be taken back."""
        for name in chats:
            session.store.get(name)  # one that is not there must not be called deleted
            if kind == "archive":
                session.store.update(name, archived=True, pinned=False)
            else:
                stop_writing(session, name)
        mark = session.deleted.delete(chats) if kind == "delete" else ""
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


def stop_writing(session: Session, chat: str) -> None:
    """End the answer that is being written in the conversation, if one is."""
    job = session.job
    if job is not None and session.writing(chat):
        session.stop(chat)
        job.join(10)


def build(sessions: Sessions, blocks: gr.Blocks) -> None:
    """Make the page inside these blocks."""
    page = Page()
    answering = Answering(sessions, page.view)
    _connect_answers(page, blocks, answering)
    _connect_conversations(sessions, page, partial(_follow_behind, answering))
    _connect_options(sessions, page)


def _follow_behind(answering: Answering, event: Any) -> None:
    """Let an answer be followed behind an event that may start or show one."""
    view = answering.view
    # Each: one that lets go may still be at its last look when the next begins.
    following = event.then(answering.follow, [view.chat_id, view.followed], view.moving, **EACH)
    following.then(answering.ended, [view.chat_id, view.followed], view.outputs, **EACH)


def _connect_answers(page: Page, blocks: gr.Blocks, answering: Answering) -> None:
    """Everything that shows or starts an answer."""
    view, behind = page.view, partial(_follow_behind, answering)
    where = [view.box, view.chat_id, view.editing, view.attached, view.followed]
    here = [view.chat_id, view.followed]
    files = [view.attached, view.box, view.chat_id, view.editing]
    shown = [view.attached, view.chips, view.notice]
    view.reading.act(answering.take, [*files, view.followed], [view.attached, view.chips, view.reading], **EACH)
    # The hidden field is but a place for what the script says.
    place: dict[str, Any] = {"inputs": [view.options.chat], "js": "() => [location.pathname]"}
    behind(blocks.load(answering.arrive, outputs=view.outputs, **place, **PRIVATE))
    behind(gr.on([view.box.submit, view.send.click], answering.ask, where, view.outputs, **PRIVATE))
    behind(view.chat.example_select(answering.example, here, view.outputs, **PRIVATE))
    behind(view.marks.act(answering.turn, here, view.outputs, **PRIVATE))
    behind(view.permit.act(answering.decide, here, view.outputs, **PRIVATE))
    plain = [view.attached, view.chips, view.editing, view.cancel, view.notice]
    view.cancel.click(answering.cancel, [view.chat_id], plain, queue=False, **PRIVATE)
    view.stop.click(answering.halt, [view.chat_id], None, queue=False, **PRIVATE)
    view.chips.act(answering.chip, files, shown, **PRIVATE)
    page.tick.tick(answering.look, [view.seen_idle], [view.seen_idle, view.notice, view.gauge], **PRIVATE)


def _connect_conversations(sessions: Sessions, page: Page, behind: Callable[[Any], None]) -> None:
    """The list of conversations, import."""
    view, chats = page.view, Conversations(sessions, page.view)
    where = [view.chat_id, view.followed]
    behind(view.rows.act(chats.row, where, view.outputs, **EACH))
    view.notice.act(chats.undo, where, view.outputs, **PRIVATE)  # nothing is being written in what comes back
    importing = page.upload.upload(chats.import_file, [page.upload, *where], view.outputs, **PRIVATE)
    behind(importing)  # also where the file is refused: the answer being written is followed on
    page.new.click(chats.fresh, where, view.outputs, **PRIVATE)
    page.query.input(chats.search, [page.query, view.chat_id], [view.rows], **LAST)


def _connect_options(sessions: Sessions, page: Page) -> None:
    """Model, speculation switch and options of the conversation."""
    view, chosen = page.view, OptionEvents(sessions, page.view)
    view.target.input(chosen.target, [view.target, view.chat_id, view.followed], view.outputs, **EACH)
    view.speculation.input(chosen.speculate, [view.speculation, view.chat_id], [view.side, view.notice], **LAST)
    view.tools.input(chosen.tools, [view.tools, view.chat_id], [view.tools, view.notice], **LAST)
    view.options.preset.input(chosen.preset, [view.options.preset, view.chat_id], view.outputs, **LAST)
    gr.on(
        [component.input for component in view.options.inputs],
        chosen.keep,
        [view.chat_id, view.options.chat, *view.options.inputs],
        [view.notice, view.options.preset],
        **LAST,
    )
