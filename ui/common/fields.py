"""Form fields from the settings' own rules: one component per setting, its help and range below it.

Texts come back as the values the settings take; whether they are acceptable the settings decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.room import context_of
from omnidraft.app.session import Session
from omnidraft.backends.llama.devices import gpu_offload
from omnidraft.errors import OmniDraftError, SettingsError
from omnidraft.format import count
from omnidraft.settings.config import AppSettings, describe, value_of
from omnidraft.settings.fields import Setting
from ui.common.events import Events
from ui.common.notes import note

LAYERS = "od-layers"  # class of what holds fields in two layers: those most people set, and those for experts, folded
EXPERT = "od-expert"  # class of a field in the folded one (`Rule.expert`)
Component: TypeAlias = gr.Checkbox | gr.Dropdown | gr.Textbox
SETTINGS = {setting.name: setting for setting in describe(AppSettings)}
NO_GPU = "This build of llama.cpp computes on the processor only, so there is nothing to set here."
TITLES = {
    "draft.enabled": "Drafting",
    "cache.enabled": "Merge n-grams",
    "cache.seed": "Merge by the vocabularies",
    "learning.enabled": "Learn in idle time",
    "templates": "Chat templates of your own",
    "unload_after": "Unload when idle (minutes)",
    "n_ctx": "Context length",
    "n_gpu_layers": "Layers on the GPU",
    "kv_type": "KV cache format",
    "device": "Device (folders)",
    "dtype": "Number format (folders)",
    "top_k": "Top-k",
    "top_p": "Top-p",
    "min_p": "Min-p",
    "repeat_penalty": "Repetition penalty",
    "max_tokens": "Longest answer (tokens)",
    "stop": "Stop texts",
    "mode": "Draft length",
    "length": "Fixed length",
    "lookup": "Copy from the text",
    "cpu_percent": "Processor share",
    "interval": "Train every (answers)",
}


def title(setting: Setting) -> str:
    """What the field is called."""
    last = setting.name.rpartition(".")[2]
    return TITLES.get(setting.name) or TITLES.get(last) or last.replace("_", " ").capitalize()


def on_page(setting: Setting, sentence: str) -> str:
    """A refusal as the page says it: the field by its label, not by its name in the settings file."""
    return sentence.replace(f"The setting {setting.name}", title(setting)).replace(setting.name, title(setting))


def help_of(setting: Setting) -> str:
    return setting.rule.help + (" Takes effect when the model is loaded again." if setting.rule.reload else "")


def fold() -> gr.HTML:
    """The button between both layers. The page script opens the fold on a click, for a search, and for an address that
    names a field in it."""
    return gr.HTML(
        '<button type="button" class="od-unfold" data-od="layers" aria-expanded="false">Expert settings</button>'
    )


def make(name: str) -> Component:
    """The component of a setting, without a value yet; greyed out where it could do nothing here."""
    setting, usable = SETTINGS[name], name != "model.n_gpu_layers" or gpu_offload()
    rule = setting.rule
    common: dict[str, Any] = {
        "label": title(setting), "info": help_of(setting) if usable else NO_GPU,
        "elem_id": f"od-set-{name.replace('.', '-')}", "interactive": usable,
        "elem_classes": ["od-field", "od-setting", *([EXPERT] if rule.expert else [])],
    }  # fmt: skip
    if rule.kind == "switch":
        return gr.Checkbox(**common)
    if rule.kind == "choice":
        return gr.Dropdown(list(rule.choices), filterable=False, **common)
    if rule.kind == "texts":
        return gr.Textbox(lines=2, placeholder="one per line", **common)
    return gr.Textbox(max_lines=1, placeholder="not set" if rule.optional else "", **common)


def shown(setting: Setting, value: Any) -> Any:
    """A setting's value as its component shows it."""
    if setting.rule.kind in ("switch", "choice"):
        return value
    if setting.rule.kind == "texts":
        return "\n".join(value)
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def parsed(setting: Setting, value: Any) -> Any:
    """What the user entered as a setting's value. Raises SettingsError if it is not even of the right kind."""
    kind = setting.rule.kind
    if kind in ("switch", "choice"):
        return value
    text = (value or "").strip()
    if kind == "texts":
        return tuple(line for line in (value or "").splitlines() if line)
    if not text and setting.rule.optional:
        return None
    if kind == "text":
        return text
    try:
        return int(text.replace(",", "")) if kind == "integer" else float(text)
    except ValueError:
        raise SettingsError(f"{title(setting)} is '{text[:40]}', but must be {setting.rule.accepted}.") from None


# A settings field at work on a page: checked and kept as soon as it is left, refused in a sentence.


def arrived(session: Session, made: Mapping[str, Component]) -> dict:
    """What the fields of a page show when it arrives; by the names of their settings."""
    known = SETTINGS
    values = {field: shown(known[name], value_of(session.settings, name)) for name, field in made.items()}
    if (field := made.get("model.n_ctx")) is not None:
        told = _context_told(session)
        values[field] = gr.Textbox(value=values[field], info=f"{help_of(known['model.n_ctx'])} {told}".strip())
    return values


def _context_told(session: Session) -> str:
    """The model at hand may take less than is set."""
    path = session.target_or_none()
    model = models_list.at(models_list.scan(session.assistant), path) if path is not None else None
    return f"{model.name} takes {count(context_of(model, session.settings.model))}." if model is not None else ""


def keep(
    events: Events,
    made: Mapping[str, Component],
    *,
    also: Sequence[gr.Component] = (),
    after: Callable[[Session], dict] = lambda session: {},
    scripts: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Keep each field when it is left (texts) or changed (the rest). `after` says what the components `also` show then;
    scripts: what the browser does besides, by the names of settings."""
    for name, component in made.items():
        change = partial(_change, events.said, SETTINGS[name], component, after)
        text = isinstance(component, gr.Textbox)
        happens = [component.blur, component.submit] if text else component.input
        script: dict[str, Any] = {} if text else {"js": scripts.get(name)}
        events.on(happens, change, [component, *also], [component], **script)


def _change(
    said: gr.HTML, setting: Setting, component: Component, after: Callable[[Session], dict], session: Session,
    value: Any,
) -> dict:  # fmt: skip
    before = value_of(session.settings, setting.name)
    try:
        wanted = parsed(setting, value)
        if wanted == before:
            return {component: shown(setting, before)}  # left untouched: what was said about it still holds
        told = session.change(setting.name, wanted)
    except OmniDraftError as error:
        return {said: note(on_page(setting, str(error)), bad=True), component: shown(setting, before)}
    return {said: note(f"{title(setting)}: {told}"), component: shown(setting, wanted), **after(session)}
