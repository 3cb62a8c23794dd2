"""The options of one conversation: system prompt, sampling, seed. Shown beside the chat, kept with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.backends.prompting.grammar import check_grammar, form_grammar
from omnidraft.chats import Conversation
from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings, describe
from ui.common.fields import title
from ui.common.layers import EXPERT, LAYERS, fold

_DEFAULT = SamplingSettings()
PRESETS: dict[str, dict[str, Any]] = {
    "Exact": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "Careful": {"temperature": 0.4, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    "Balanced": {name: getattr(_DEFAULT, name) for name in ("temperature", "top_k", "top_p", "min_p")},
    "Lively": {"temperature": 1.1, "top_k": 0, "top_p": 1.0, "min_p": 0.05},
}
OWN = "Own values"
THINKING = {"auto": "as the model does"}
HOTTEST = 2.0  # where the slider ends, unless a conversation is hotter: beyond that nothing is left of a sentence
_SETTINGS = {setting.name: setting for setting in describe(SamplingSettings)}
_RULES = {name: setting.rule for name, setting in _SETTINGS.items()}


@dataclass(slots=True)
class Options:
    """The components, in the order of `values`.

    chat: whose options stand here. It is hidden and sent along with them: what a page sends late, when the next
    conversation is already shown, is kept with the one it was written for.
    """

    chat: gr.Textbox
    system: gr.Textbox
    preset: gr.Dropdown
    temperature: gr.Slider
    top_p: gr.Slider
    min_p: gr.Slider
    top_k: gr.Number
    repeat_penalty: gr.Slider
    max_tokens: gr.Number
    seed: gr.Textbox
    form: gr.Textbox
    thinking: gr.Dropdown

    @property
    def inputs(self) -> list[Any]:
        """What is read to store the options, without the preset, which only fills the others."""
        return [
            self.system,
            self.temperature,
            self.top_p,
            self.min_p,
            self.top_k,
            self.repeat_penalty,
            self.max_tokens,
            self.seed,
            self.form,
            self.thinking,
        ]

    def show(self, chat: Conversation, sampling: SamplingSettings, words: Collection[str] = ()) -> dict:
        """Updates that show what `chat` uses. words: what its model can be told about thinking."""
        offered = [word for word in _RULES["thinking"].choices if word in ("auto", sampling.thinking, *words)]
        return {
            self.thinking: gr.Dropdown(
                choices=[(THINKING.get(word, word), word) for word in offered],
                value=sampling.thinking,
                visible=True if words else "hidden",
            ),
            self.chat: chat.id,
            self.system: chat.system,
            self.preset: preset_of(sampling),
            self.temperature: gr.Slider(value=sampling.temperature, maximum=max(HOTTEST, sampling.temperature)),
            self.top_p: sampling.top_p,
            self.min_p: sampling.min_p,
            self.top_k: sampling.top_k,
            self.repeat_penalty: sampling.repeat_penalty,
            self.max_tokens: sampling.max_tokens,
            self.seed: "" if sampling.seed is None else str(sampling.seed),
            self.form: sampling.form or "",
        }


def build() -> Options:
    """Make the components where the layout stands: what most people set, and folded what experts do."""
    with gr.Column(elem_id="od-options", elem_classes=LAYERS):
        usual = _usual()
        fold()
        return Options(**usual, **_expert())


def _usual() -> dict[str, Any]:
    return {
        "chat": gr.Textbox(visible="hidden"),
        "system": gr.Textbox(
            label="System prompt",
            lines=3,
            max_lines=8,
            placeholder="What the model should know or be",
            elem_id="od-system",
        ),
        "preset": gr.Dropdown(
            [*PRESETS, OWN], value="Balanced", label="Sampling", filterable=False, elem_id="od-preset"
        ),
        "temperature": gr.Slider(step=0.05, elem_id="od-temperature", **{**_slider("temperature"), "maximum": HOTTEST}),
        "max_tokens": gr.Number(
            precision=0,
            minimum=_RULES["max_tokens"].low,
            placeholder="not set",
            elem_id="od-max-tokens",
            **_named("max_tokens"),
        ),
        "thinking": gr.Dropdown(
            [(THINKING.get(word, word), word) for word in _RULES["thinking"].choices],
            label=title(_SETTINGS["thinking"]),
            filterable=False,
            visible="hidden",
            elem_id="od-thinking",
        ),
    }


def _expert() -> dict[str, Any]:
    return {
        "top_p": gr.Slider(step=0.01, **_slider("top_p")),
        "min_p": gr.Slider(step=0.01, **_slider("min_p")),
        "top_k": gr.Number(precision=0, minimum=_RULES["top_k"].low, **_named("top_k")),
        "repeat_penalty": gr.Slider(step=0.05, **_slider("repeat_penalty")),
        "seed": gr.Textbox(placeholder="fresh each time", max_lines=1, elem_id="od-seed", **_named("seed")),
        "form": gr.Textbox(
            placeholder='{"type": "object", "properties": ...}',
            lines=2,
            max_lines=8,
            elem_id="od-form",
            **_named("form"),
        ),
    }


def _named(name: str) -> dict[str, Any]:
    """What a field is called, its sentence and its layer, as on the Settings page."""
    layer = {"elem_classes": EXPERT} if _RULES[name].expert else {}
    return {"label": title(_SETTINGS[name]), "info": _RULES[name].help, **layer}


def _slider(name: str) -> dict[str, Any]:
    """Help and range as the settings have them: Gradio refuses every event of a page that shows a value outside."""
    rule = _RULES[name]
    return {**_named(name), "minimum": rule.low, "maximum": rule.high}


def preset_of(sampling: SamplingSettings) -> str:
    for name, values in PRESETS.items():
        if all(getattr(sampling, key) == value for key, value in values.items()):
            return name
    return OWN


def store(
    session: Session,
    chat: str,
    system: str,
    temperature: float,
    top_p: float,
    min_p: float,
    top_k: int,
    repeat_penalty: float,
    max_tokens: int | None,
    seed: str,
    form: str,
    thinking: str,
) -> SamplingSettings:
    """Keep the options with the conversation. Raises SettingsError or GrammarError naming what is refused."""
    if form := (form or "").strip():
        check_grammar(form_grammar(form))
    before = session.store.get(chat).sampling or session.settings.sampling
    sampling = replace(
        before,
        temperature=_number(temperature, "temperature"),
        top_p=_number(top_p, "top_p"),
        min_p=_number(min_p, "min_p"),
        top_k=int(_number(top_k, "top_k")),
        repeat_penalty=_number(repeat_penalty, "repeat_penalty"),
        max_tokens=None if max_tokens is None else int(max_tokens),
        seed=_seed(seed),
        form=form or None,
        thinking=thinking,
    )
    session.store.update(
        chat, system=system or "", sampling=None if sampling == session.settings.sampling else sampling
    )
    return sampling


def _number(value: float | None, name: str) -> float:
    if value is None:
        raise SettingsError(f"{name.replace('_', '-').capitalize()} needs a number.")
    return value


def _seed(text: str) -> int | None:
    text = (text or "").strip()
    if not text:
        return None
    if not text.isdecimal():
        raise SettingsError(f"The seed is a whole number or empty, not '{text[:40]}'.")
    return int(text)
