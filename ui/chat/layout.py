"""What stands where on the chat page. Knows no event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from ui.chat import attachments, library, tools
from ui.chat.conversation_list import PICK_SCRIPT
from ui.chat.first_screen import arriving, examples
from ui.chat.named_rows import SCRIPT
from ui.chat.options import Options
from ui.chat.turns import Followed
from ui.chat.view import ChatView
from ui.common.frame import mobile_bar, side_head

LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
# The page script calls this with what was clicked below a message.
UNDO = """element.addEventListener('click', (event) => {
  const button = event.target.closest('.od-undo');
  if (button) trigger('act', {mark: button.dataset.mark});
});"""
BUS = "window.odTurn = (detail) => trigger('act', detail);"
ASIDE_BUTTON = (
    '<button type="button" data-od="aside" aria-label="Speed and options" aria-expanded="false">'
    '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6"/></svg>'
    "</button>"
)
IDLE_LOOK = 5.0  # seconds between a page's questions whether the model is still in memory


@dataclass(slots=True)
class Page:
    """The page's components: those an event may change, and those that only start events."""

    view: ChatView
    new: gr.Button
    query: gr.Textbox
    upload: gr.UploadButton
    attach: gr.UploadButton
    tick: gr.Timer
    library: library.LibraryParts


def build_layout() -> Page:
    """Make the components inside the current blocks."""
    with gr.Row(elem_id="od-shell", elem_classes="od-chat-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side = _side()
        with gr.Column(elem_id="od-main", scale=1, min_width=0):
            mobile_bar("Chat")
            top = _top()
            middle = _conversation()
            composer = _composer()
        with gr.Column(elem_id="od-aside", scale=0, min_width=0):
            aside = _aside()
    start: dict[str, Any] = {"chat_id": None, "editing": None, "attached": [], "followed": Followed(), "seen_idle": 0}
    states = {name: gr.State(value) for name, value in start.items()}
    starters = {name: side.pop(name) for name in ("new", "query", "upload")}
    attach = composer.pop("attach")
    kept = aside.pop("library")
    view = ChatView(**states, **side, **top, **middle, **composer, **aside)
    return Page(view=view, attach=attach, tick=gr.Timer(IDLE_LOOK), library=kept, **starters)


def _side() -> dict[str, Any]:
    """Names, pages, the list of conversations, import and export."""
    side_head("Chat")
    made: dict[str, Any] = {"new": gr.Button("New chat", elem_id="od-new", size="sm")}
    made["query"] = gr.Textbox(
        show_label=False,
        label="Search conversations",
        placeholder="Search",
        container=False,
        elem_id="od-search",
        max_lines=1,
    )
    made["rows"] = gr.HTML(elem_id="od-rows", js_on_load=SCRIPT + PICK_SCRIPT)
    with gr.Row(elem_id="od-transfer"):
        made["links"] = gr.HTML(elem_id="od-links")
        made["upload"] = gr.UploadButton(
            "Import",
            file_types=[".json", ".md", ".zip"],
            size="sm",
            elem_id="od-import",
            scale=0,
            min_width=0,
        )
    return made


def _top() -> dict[str, Any]:
    """The model, the drafting switch, how full the context is."""
    with gr.Row(elem_id="od-top"):
        made: dict[str, Any] = {
            "target": gr.Dropdown(
                label="Model", show_label=False, container=False, elem_id="od-target", min_width=120, filterable=False
            ),
            "speculation": gr.Checkbox(
                label="Drafting", value=True, container=False, elem_id="od-spec", scale=0, min_width=0
            ),
            "gauge": gr.HTML(elem_id="od-state"),
        }
        gr.HTML(ASIDE_BUTTON, elem_id="od-aside-button")
    return made


def _conversation() -> dict[str, Any]:
    """The turns, and the lines below them."""
    return {
        "chat": gr.Chatbot(
            elem_id="od-chat",
            show_label=False,
            label="Conversation",
            container=False,
            layout="panel",
            height=None,
            buttons=[],
            latex_delimiters=LATEX,
            placeholder=arriving(),
            group_consecutive_messages=False,
            autoscroll=False,  # turns.js does it: Gradio's own pulls readers down who have scrolled up a little
            examples=examples(None),
        ),
        "marks": gr.HTML(elem_id="od-bus", js_on_load=BUS),
        "permit": gr.HTML(elem_id="od-permit", js_on_load=tools.SCRIPT),
        "notice": gr.HTML(elem_id="od-notice", js_on_load=UNDO),
        "line": gr.HTML(elem_id="od-line"),
    }


def _composer() -> dict[str, Any]:
    """Where a message is written: its files above, then the box between its buttons."""
    made: dict[str, Any] = {"chips": gr.HTML(elem_id="od-attached", js_on_load=attachments.SCRIPT)}
    made["too_long"] = gr.Radio(
        attachments.TOO_LONG,
        value=attachments.REFUSE,
        label="The files do not fit the context",
        visible=False,
        elem_id="od-too-long",
    )
    with gr.Row(elem_id="od-composer"):
        made["attach"] = gr.UploadButton(
            "Attach pictures, text, PDF, Word or Excel files",
            file_count="multiple",
            elem_id="od-attach",
            scale=0,
            min_width=0,
            size="sm",
        )
        made["box"] = gr.Textbox(
            show_label=False,
            label="Message",
            placeholder="Write a message",
            lines=1,
            max_lines=10,
            container=False,
            elem_id="od-box",
            scale=1,
        )
        made["cancel"] = gr.Button("Cancel", elem_id="od-cancel", visible=False, scale=0, min_width=76)
        made["send"] = gr.Button("Send", variant="primary", elem_id="od-send", scale=0, min_width=76)
        made["stop"] = gr.Button("Stop", variant="stop", elem_id="od-stop", visible=False, scale=0, min_width=76)
    return made


def _aside() -> dict[str, Any]:
    """Speed, origins of the tokens, options, presets and prompts."""
    with gr.Tabs(elem_id="od-tabs"):
        with gr.Tab("Speed", id="speed"):
            side = gr.HTML(elem_id="od-live")
        with gr.Tab("Tokens", id="tokens"):
            tokens = gr.HTML(elem_id="od-origins")
        with gr.Tab("Options", id="options"):
            allowed = gr.Checkbox(label="Tools", info=tools.INFO, elem_id="od-tools", container=False)
            options = Options()
        with gr.Tab("Library", id="library"):
            kept = library.LibraryParts()
    return {"side": side, "tokens": tokens, "options": options, "library": kept, "tools": allowed}
