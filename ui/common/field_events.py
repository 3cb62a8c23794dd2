"""A settings field at work on a page: checked and kept as soon as it is left, refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import Setting, value_of
from ui.common import fields
from ui.common.layout import PRIVATE
from ui.common.notes import note
from ui.common.request import session_of


def keep(
    sessions: Sessions,
    setting: Setting,
    component: fields.Component,
    said: gr.HTML,
    *,
    also: Sequence[gr.Component] = (),
    after: Callable[[Session], dict] = lambda session: {},
    js: str | None = None,
) -> None:
    """Keep a field when it is left (texts) or changed (the rest). `after` says what the components `also` show then."""

    def change(value: Any, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        before = value_of(session.settings, setting.name)
        try:
            wanted = fields.parsed(setting, value)
            if wanted == before:
                return {component: fields.shown(setting, before)}  # left untouched: what was said about it still holds
            told = session.change(setting.name, wanted)
        except OmniDraftError as error:
            return {said: note(fields.on_page(setting, str(error)), bad=True), component: fields.shown(setting, before)}
        shown = {component: fields.shown(setting, wanted)}
        return {said: note(f"{fields.title(setting)}: {told}"), **shown, **after(session)}

    outputs = [said, component, *also]
    if isinstance(component, gr.Textbox):
        gr.on([component.blur, component.submit], change, [component], outputs, **PRIVATE)
    else:
        component.input(change, [component], outputs, js=js, **PRIVATE)
