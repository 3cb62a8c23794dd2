"""The chat page: what stands where, and which event does what. What is shown is `view`'s business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import gradio as gr

from omnidraft.app.sessions import Sessions
from ui.chat.conversation_list import SCRIPT
from ui.chat.conversations import Conversations
from ui.chat.events import Answering, OptionEvents
from ui.chat.following import Followed
from ui.chat.options import Options
from ui.chat.parts import TOOLS, arriving, examples
from ui.chat.view import ChatView
from ui.common.frame import BARE, SMALL, mobile_bar, side_head
from ui.common.notes import CLICKS
from ui.gradio_ways import EACH, LAST, PRIVATE

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
