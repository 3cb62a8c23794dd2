"""The chat page: what stands on it and which event does what. What the events show is chat_view's business."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.errors import OmniDraftError
from ui import chat_options, conversing, transfer
from ui.chat_list import SCRIPT, listing
from ui.chat_view import ChatView, note
from ui.empty_state import EXAMPLES, arriving
from ui.layout import mobile_bar, side_head
from ui.origins import origins
from ui.request import session_of
from ui.session import Sessions

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
# The page script calls this with what was clicked below a message.
BUS = "window.odTurn = (detail) => trigger('act', detail);"


def build(sessions: Sessions) -> None:
    """Make the page inside the current blocks."""
    page = gr.context.Context.root_block
    with gr.Row(elem_id="od-shell", elem_classes="od-chat-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Chat")
            new = gr.Button("New chat", elem_id="od-new", size="sm")
            query = gr.Textbox(
                show_label=False,
                label="Search conversations",
                placeholder="Search",
                container=False,
                elem_id="od-search",
                max_lines=1,
            )
            rows = gr.HTML(elem_id="od-rows", js_on_load=SCRIPT)
            with gr.Row(elem_id="od-transfer"):
                links = gr.HTML(elem_id="od-links")
                upload = gr.UploadButton(
                    "Import",
                    file_types=[".json", ".md"],
                    size="sm",
                    elem_id="od-import",
                    scale=0,
                    min_width=0,
                    type="binary",
                )
        with gr.Column(elem_id="od-main", scale=1, min_width=0):
            mobile_bar("Chat")
            with gr.Row(elem_id="od-top"):
                target = gr.Dropdown(
                    label="Model",
                    show_label=False,
                    container=False,
                    elem_id="od-target",
                    min_width=120,
                    filterable=False,
                )
                speculation = gr.Checkbox(
                    label="Draft", value=True, container=False, elem_id="od-spec", scale=0, min_width=0
                )
                gauge = gr.HTML(elem_id="od-state")
                gr.HTML(
                    '<button type="button" data-od="aside" aria-label="Speed and options" aria-expanded="false">'
                    '<svg viewBox="0 0 24 24" aria-hidden="true">'
                    '<path d="M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6"/></svg></button>',
                    elem_id="od-aside-button",
                )
            chat = gr.Chatbot(
                elem_id="od-chat",
                show_label=False,
                label="Conversation",
                container=False,
                layout="panel",
                height=None,
                buttons=["copy"],
                latex_delimiters=LATEX,
                placeholder=arriving(),
                group_consecutive_messages=False,
                examples=[{"text": text} for text in EXAMPLES],
            )
            marks = gr.HTML(elem_id="od-bus", js_on_load=BUS)
            notice = gr.HTML(elem_id="od-notice")
            line = gr.HTML(elem_id="od-line")
            with gr.Row(elem_id="od-composer"):
                box = gr.Textbox(
                    show_label=False,
                    label="Message",
                    placeholder="Write a message",
                    lines=1,
                    max_lines=10,
                    container=False,
                    autofocus=True,
                    elem_id="od-box",
                    scale=1,
                )
                send = gr.Button("Send", variant="primary", elem_id="od-send", scale=0, min_width=76)
                stop = gr.Button("Stop", variant="stop", elem_id="od-stop", visible=False, scale=0, min_width=76)
        with gr.Column(elem_id="od-aside", scale=0, min_width=0), gr.Tabs(elem_id="od-tabs"):
            with gr.Tab("Speed", id="speed"):
                side = gr.HTML(elem_id="od-live")
            with gr.Tab("Tokens", id="tokens"):
                tokens = gr.HTML(elem_id="od-origins")
            with gr.Tab("Options", id="options"):
                options = chat_options.build()
    chat_id, editing = gr.State(None), gr.State(None)
    view = ChatView(
        chat_id,
        editing,
        target,
        speculation,
        gauge,
        chat,
        marks,
        notice,
        line,
        box,
        send,
        stop,
        side,
        tokens,
        rows,
        links,
        options,
    )
    _answers(sessions, view, page, query, new, upload)
    _settings(sessions, view)


def _answers(
    sessions: Sessions, view: ChatView, page: gr.Blocks, query: gr.Textbox, new: gr.Button, upload: gr.UploadButton
) -> None:
    """Everything that asks, shows or changes conversations."""
    streaming = {**PRIVATE, "concurrency_limit": None}

    def arrive(request: gr.Request) -> Iterator[dict]:
        yield from view.arrival(session_of(sessions, request))

    def ask(text: str, chat: str | None, editing: str | None, request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        if not text.strip():
            yield {view.notice: ""}
            return
        name = session.chat(chat).id
        if editing:
            yield from view.run(session, name, lambda: conversing.edit(session, name, editing, text), text)
        else:
            yield from view.run(session, name, lambda: conversing.ask(session, name, text), text)

    def turn(chat: str | None, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        name = session.chat(chat).id
        data = event._data
        if data["kind"] == "regenerate":
            yield from view.run(session, name, lambda: conversing.regenerate(session, name))
        elif data["kind"] == "edit":
            yield {
                view.box: session.store.message(data["id"]).content,
                view.editing: data["id"],
                view.notice: note("Editing an earlier message: sending makes a new version beside the old one."),
            }
        elif data["kind"] == "tokens":
            message = session.store.message(data["id"])
            yield {view.tokens: origins(list(zip(message.meta.get("pieces", []), message.origins, strict=False)))}
        else:
            versions = session.store.siblings(data["id"])
            here = [m.id for m in versions].index(data["id"])
            session.store.select(versions[(here + data["step"]) % len(versions)].id)
            yield from view.open(session, session.store.get(name))

    def row(chat: str | None, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        data = event._data
        try:
            if data["kind"] == "open":
                yield from view.open(session, session.show(data["id"]))
                return
            if data["kind"] == "rename":
                session.store.rename(data["id"], data["title"])
                yield {view.rows: listing(session, session.chat(chat).id)}
                return
            if session.busy and session.job.chat == data["id"]:
                session.stop()
                session.job.join(10)
            session.store.delete(data["id"])
            yield from view.open(session, session.chat(chat), {view.notice: note("The conversation was deleted.")})
        except OmniDraftError as error:
            yield {view.notice: note(str(error), bad=True), view.rows: listing(session, session.chat(chat).id)}

    def fresh(request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        yield from view.open(session, session.new_chat())

    def search(text: str, chat: str | None, request: gr.Request) -> str:
        session = session_of(sessions, request)
        return listing(session, session.chat(chat).id, text)

    def bring(data: bytes | None, chat: str | None, request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        try:
            added = transfer.bring(session.store, data or b"")
            said = f"{len(added)} conversation{'s were' if len(added) != 1 else ' was'} imported."
            yield from view.open(
                session, session.show(added[-1].id) if added else session.chat(chat), {view.notice: note(said)}
            )
        except OmniDraftError as error:
            yield {view.notice: note(str(error), bad=True)}

    def halt(request: gr.Request) -> None:
        session_of(sessions, request).stop()

    where = [view.box, view.chat_id, view.editing]
    loading = page.load(arrive, None, view.outputs, **streaming)
    asking = gr.on([view.box.submit, view.send.click], ask, where, view.outputs, **streaming)
    picked = view.chat.example_select(_example_text, None, [view.box], **PRIVATE)
    asking_example = picked.then(ask, where, view.outputs, **streaming)
    turning = view.marks.act(turn, [view.chat_id], view.outputs, **streaming)
    running = [loading, asking, asking_example, turning]
    # What shows another conversation ends the following of this one in this tab; the answer itself goes on.
    opening = view.rows.act(row, [view.chat_id], view.outputs, cancels=running, **streaming)
    new.click(fresh, None, view.outputs, cancels=[*running, opening], **streaming)
    upload.upload(bring, [upload, view.chat_id], view.outputs, cancels=[*running, opening], **streaming)
    query.input(search, [query, view.chat_id], [view.rows], trigger_mode="multiple", **PRIVATE)
    view.stop.click(halt, None, None, queue=False, **PRIVATE)


def _settings(sessions: Sessions, view: ChatView) -> None:
    """Model, speculation switch and options of the conversation."""
    options = view.options

    def choose(path: str, chat: str | None, request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        yield from view.switch(session, session.chat(chat).id, Path(path))

    def speculate(on: bool, chat: str | None, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        changed = session.store.update(session.chat(chat).id, speculation=on)
        return {view.side: view._panel(session, changed, session.store.path(changed.id))}

    def keep(request: gr.Request, chat: str | None, *values: Any) -> dict:
        session = session_of(sessions, request)
        try:
            sampling = chat_options.store(session, session.chat(chat).id, *values)
        except OmniDraftError as error:
            return {view.notice: note(str(error), bad=True)}
        return {view.notice: "", options.preset: chat_options.preset_of(sampling)}

    def preset(name: str, chat: str | None, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        found = session.chat(chat)
        values = chat_options.PRESETS.get(name)
        if values is None:
            return {view.notice: ""}
        sampling = conversing.with_values(session, found, values)
        return options.show(session.store.update(found.id, sampling=sampling), sampling)

    view.target.input(choose, [view.target, view.chat_id], view.outputs, concurrency_limit=None, **PRIVATE)
    view.speculation.input(speculate, [view.speculation, view.chat_id], [view.side], **PRIVATE)
    options.preset.input(preset, [options.preset, view.chat_id], view.outputs, **PRIVATE)
    gr.on(
        [component.input for component in options.inputs],
        keep,
        [view.chat_id, *options.inputs],
        [view.notice, options.preset],
        trigger_mode="multiple",
        **PRIVATE,
    )


def _example_text(event: gr.SelectData) -> str:
    return event.value["text"]
