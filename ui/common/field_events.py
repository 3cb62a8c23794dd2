"""A settings field at work on a page: checked and kept as soon as it is left, refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.model_memory import context_of
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.format import count
from omnidraft.settings.config import Setting, value_of
from ui.common import fields
from ui.common.layout import PRIVATE
from ui.common.notes import note
from ui.common.request import session_of


def arrived(session: Session, made: Mapping[str, fields.Component]) -> dict:
    """What the fields of a page show when it arrives; by the names of their settings."""
    known = fields.SETTINGS
    values = {field: fields.shown(known[name], value_of(session.settings, name)) for name, field in made.items()}
    if (field := made.get("model.n_ctx")) is not None:
        told = _context_told(session)
        values[field] = gr.Textbox(value=values[field], info=f"{fields.help_of(known['model.n_ctx'])} {told}".strip())
    return values


def _context_told(session: Session) -> str:
    """The model at hand may take less than is set."""
    path = session.target_or_none()
    found = models_list.scan(session.assistant) if path is not None else []
    model = next((one for one in found if path and one.path.resolve() == path.resolve()), None)
    return f"{model.name} takes {count(context_of(model, session.settings.model))}." if model is not None else ""


def keep(
    sessions: Sessions,
    made: Mapping[str, fields.Component],
    said: gr.HTML,
    *,
    also: Sequence[gr.Component] = (),
    after: Callable[[Session], dict] = lambda session: {},
    scripts: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Keep each field when it is left (texts) or changed (the rest). `after` says what the components `also` show then;
    scripts: what the browser does besides, by the names of settings."""
    for name, component in made.items():
        change, outputs = _changing(sessions, fields.SETTINGS[name], component, said, after), [said, component, *also]
        if isinstance(component, gr.Textbox):
            gr.on([component.blur, component.submit], change, [component], outputs, **PRIVATE)
        else:
            component.input(change, [component], outputs, js=scripts.get(name), **PRIVATE)


def _changing(
    sessions: Sessions, setting: Setting, component: fields.Component, said: gr.HTML, after: Callable[[Session], dict]
) -> Callable[[Any, gr.Request], dict]:
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

    return change
