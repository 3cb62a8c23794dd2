"""The options beside the chat take every value that the settings take: Gradio would refuse all of them otherwise."""

from __future__ import annotations

from types import SimpleNamespace

import gradio as gr
import pytest

from omnidraft.chats import ChatStore, Conversation
from omnidraft.errors import SettingsError
from omnidraft.settings.config import AppSettings, SamplingSettings, describe
from ui.chat import options as chat_options

RULES = {setting.name: setting.rule for setting in describe(SamplingSettings)}


@pytest.fixture(scope="module")
def options() -> chat_options.Options:
    with gr.Blocks():
        return chat_options.Options()


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "top_k", "repeat_penalty", "max_tokens"])
def test_the_whole_range_of_a_setting_is_accepted(options, name):
    component, rule = getattr(options, name), RULES[name]
    if name == "temperature":
        component = options.show(Conversation("c", "t", 0.0, 0.0), SamplingSettings(temperature=rule.high))[component]
    for value in (rule.low, rule.high):
        SamplingSettings(**{name: value})
        assert component.preprocess(value) == value
    if isinstance(component, gr.Slider):
        assert (component.minimum, component.maximum) == (rule.low, rule.high)


@pytest.mark.parametrize(
    ("words", "chosen", "offered", "visible"),
    [
        (["on", "off"], "auto", ["auto", "on", "off"], True),
        (["low", "high"], "low", ["auto", "low", "high"], True),
        (["on", "off"], "low", ["auto", "on", "off", "low"], True),  # chosen for another model: still what is sent
        ([], "auto", ["auto"], "hidden"),
    ],
)
def test_thinking_offers_what_the_model_can_be_told(options, words, chosen, offered, visible):
    shown = options.show(Conversation("c", "t", 0.0, 0.0), SamplingSettings(thinking=chosen), words)[options.thinking]
    assert [value for _, value in shown.choices] == offered
    assert (shown.value, shown.visible) == (chosen, visible)


def test_what_is_written_in_the_options_is_kept_with_the_conversation_or_refused(tmp_path):
    with ChatStore(tmp_path / "chats.sqlite") as store:
        session = SimpleNamespace(store=store, settings=AppSettings())
        chat, s = store.create().id, SamplingSettings()
        values = [s.temperature, s.top_p, s.min_p, s.top_k, s.repeat_penalty]
        chat_options.store(session, chat, "", *values, 5, "", "off")
        assert store.get(chat).sampling == SamplingSettings(max_tokens=5, thinking="off")
        chat_options.store(session, chat, "", *values, None, "", "auto")
        assert store.get(chat).sampling is None, "as the profile has it"
        chat_options.store(session, chat, "You are a lighthouse.", *values, None, " 7 ", "auto")
        assert (store.get(chat).system, store.get(chat).sampling.seed) == ("You are a lighthouse.", 7)
        with pytest.raises(SettingsError, match="The seed is a whole number or empty"):
            chat_options.store(session, chat, "", *values, None, "not a number", "auto")
