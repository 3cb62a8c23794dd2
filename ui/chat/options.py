"""The options of one conversation: system prompt, sampling, seed. Shown beside the chat, kept with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.chats import Conversation
from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings, describe
from ui.common.fields import EXPERT, LAYERS, fold, title

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
STORED = (
    "system", "temperature", "top_p", "min_p", "top_k", "repeat_penalty", "max_tokens", "seed", "thinking",
)  # fmt: skip
_PLAIN = ("top_p", "min_p", "top_k", "repeat_penalty", "max_tokens")  # shown as they are
_SETTINGS = {setting.name: setting for setting in describe(SamplingSettings)}
_RULES = {name: setting.rule for name, setting in _SETTINGS.items()}


class Options:
    """The components: what most people set, and folded what experts do.

    chat: whose options stand here. It is hidden and sent along with them: what a page sends late, when the next
    conversation is already shown, is kept with the one it was written for. inputs: what is read to store the options,
    in the order that `store` takes them, without the preset, which only fills the others.
    """

    def __init__(self) -> None:
        with gr.Column(elem_id="od-options", elem_classes=LAYERS):
            self._usual()
            fold()
            self._expert()
        self.inputs: list[Any] = [getattr(self, name) for name in STORED]

    def _usual(self) -> None:
        self.chat = gr.Textbox(visible="hidden")
        self.system = gr.Textbox(
            label="System prompt",
            lines=3,
            max_lines=8,
            placeholder="What the model should know or be",
            elem_id="od-system",
        )
        self.preset = gr.Dropdown(
            [*PRESETS, OWN], value="Balanced", label="Sampling", filterable=False, elem_id="od-preset"
        )
        hottest = {**_slider("temperature"), "maximum": HOTTEST}
        self.temperature = gr.Slider(step=0.05, elem_id="od-temperature", **hottest)
        self.max_tokens = gr.Number(
            precision=0,
            minimum=_RULES["max_tokens"].low,
            placeholder="not set",
            elem_id="od-max-tokens",
            **_named("max_tokens"),
        )
        self.thinking = gr.Dropdown(
            [(THINKING.get(word, word), word) for word in _RULES["thinking"].choices],
            label=title(_SETTINGS["thinking"]),
            filterable=False,
            visible="hidden",
            elem_id="od-thinking",
        )

    def _expert(self) -> None:
        self.top_p = gr.Slider(step=0.01, **_slider("top_p"))
        self.min_p = gr.Slider(step=0.01, **_slider("min_p"))
        self.top_k = gr.Number(precision=0, minimum=_RULES["top_k"].low, **_named("top_k"))
        self.repeat_penalty = gr.Slider(step=0.05, **_slider("repeat_penalty"))
        self.seed = gr.Textbox(placeholder="fresh each time", max_lines=1, elem_id="od-seed", **_named("seed"))

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
            **{getattr(self, name): getattr(sampling, name) for name in _PLAIN},
            self.temperature: gr.Slider(value=sampling.temperature, maximum=max(HOTTEST, sampling.temperature)),
            self.seed: "" if sampling.seed is None else str(sampling.seed),
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


def store(session: Session, chat: str, *values: Any) -> SamplingSettings:
    """Keep the options (values: of STORED) with the conversation. Raises SettingsError naming what is refused."""
    given = dict(zip(STORED, values, strict=True))
    longest, before = given["max_tokens"], session.store.get(chat).sampling or session.settings.sampling
    sampling = replace(
        before,
        **{name: _number(given[name], name) for name in ("temperature", "top_p", "min_p", "repeat_penalty")},
        top_k=int(_number(given["top_k"], "top_k")),
        max_tokens=None if longest is None else int(longest),
        seed=_seed(given["seed"]),
        thinking=given["thinking"],
    )
    own = None if sampling == session.settings.sampling else sampling
    session.store.update(chat, system=given["system"] or "", sampling=own)
    return sampling


def _number(value: float | None, name: str) -> Any:
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
