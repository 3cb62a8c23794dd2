"""The chat page: which event does what. What stands on it is chat_layout's, what is shown is chat_view's business."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr

from omnidraft.app.sessions import Sessions
from ui.chat.events import Answering
from ui.chat.layout import Page, build_layout
from ui.chat.library import WRITTEN, LibraryEvents
from ui.chat.list_events import Conversations
from ui.chat.option_events import Options
from ui.common.layout import EACH, LAST, PRIVATE


def build(sessions: Sessions) -> None:
    """Make the page inside the current blocks."""
    blocks = gr.context.Context.root_block
    page = build_layout()
    answering = Answering(sessions, page.view)
    _connect_answers(page, blocks, answering)
    _connect_conversations(sessions, page, partial(_follow_behind, answering))
    _connect_options(sessions, page)
    _connect_library(sessions, page, blocks)


def _follow_behind(answering: Answering, event: Any) -> None:
    """Let an answer be followed behind an event that may start or show one."""
    view = answering.view
    # Each: one that lets go may still be at its last look when the next begins.
    following = event.then(answering.follow, [view.chat_id, view.followed], view.moving, **EACH)
    following.then(answering.ended, [view.chat_id, view.followed], view.outputs, **EACH)


def _connect_answers(page: Page, blocks: gr.Blocks, answering: Answering) -> None:
    """Everything that shows or starts an answer."""
    view, behind = page.view, partial(_follow_behind, answering)
    where = [view.box, view.chat_id, view.editing, view.attached, view.too_long, view.followed]
    here = [view.chat_id, view.followed]
    files = [view.attached, view.box, view.chat_id]
    shown = [view.attached, view.chips, view.too_long, view.notice]
    # The hidden field is but a place for what the script says.
    place: dict[str, Any] = {"inputs": [view.options.chat], "js": "() => [location.pathname]"}
    behind(blocks.load(answering.arrive, outputs=view.outputs, **place, **PRIVATE))
    behind(gr.on([view.box.submit, view.send.click], answering.ask, where, view.outputs, **PRIVATE))
    behind(view.chat.example_select(answering.example, here, view.outputs, **PRIVATE))
    behind(view.marks.act(answering.turn, here, view.outputs, **PRIVATE))
    behind(view.permit.act(answering.decide, here, view.outputs, **PRIVATE))
    view.cancel.click(answering.cancel, None, [*view.no_edit(), view.notice], queue=False, **PRIVATE)
    view.stop.click(answering.halt, [view.chat_id], None, queue=False, **PRIVATE)
    page.attach.upload(answering.take, [page.attach, *files, view.followed], shown, **EACH)
    view.chips.act(answering.take_off, files, shown, **PRIVATE)
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
    view, chosen = page.view, Options(sessions, page.view)
    view.target.input(chosen.target, [view.target, view.chat_id], view.outputs, **EACH)
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


def _connect_library(sessions: Sessions, page: Page, blocks: gr.Blocks) -> None:
    """Presets and prompts of one's own."""
    view, parts = page.view, page.library
    kept, chat = LibraryEvents(sessions, view, parts), view.chat_id
    outputs = [*parts.outputs, view.notice]
    blocks.load(kept.arrive, None, parts.outputs, **PRIVATE)
    gr.on(
        [parts.keep_preset.click, parts.preset_name.submit], kept.keep_preset, [parts.preset_name, chat], outputs,
        **PRIVATE,
    )  # fmt: skip
    gr.on(
        [parts.keep_prompt.click, parts.prompt_name.submit], kept.keep_prompt, [parts.prompt_name, view.box, chat],
        outputs, **PRIVATE,
    )  # fmt: skip
    parts.presets.act(kept.preset_row, [chat], [*parts.outputs, *view.outputs], **EACH)
    inserted = parts.prompts.act(kept.prompt_row, [view.box, chat], [*parts.outputs, view.box], **EACH)
    inserted.then(None, None, None, js=WRITTEN)
    parts.upload.upload(kept.import_file, [parts.upload, chat], outputs, **PRIVATE)
