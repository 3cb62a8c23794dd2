"""Tools through the official client, on a tiny model with each family's template."""

from __future__ import annotations

import json

import openai
import pytest

from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.prompting.tool_templates import TEMPLATES
from tests.server.test_api import ASK, MODEL, client

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 10}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"],
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}},
]


@pytest.fixture
def server(tooled):
    return tooled


def ask(server, template: str, **more):
    wanted = {"messages": ASK, "tools": TOOLS, "max_tokens": 120, "temperature": 1, "seed": 4, **more}
    return client(server).chat.completions.create(model=f"tools-{template}", **wanted)


def is_weather(arguments: str) -> bool:
    given = json.loads(arguments)
    return set(given) == {"city", "unit"} and len(given["city"]) <= 10 and given["unit"] in ("C", "F")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_named_tool_is_called_answered_and_spoken_of(server, template, models):
    named = {"type": "function", "function": {"name": "weather"}}
    choice = ask(server, template, tool_choice=named).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.function.name == "weather"
    assert is_weather(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees"}
    messages = [*ASK, choice.message.model_dump(exclude_none=True), result]
    controls = read_gguf_vocabulary(models / "tiny-target-a-f16.gguf").controls
    barred = {str(id): -100 for id in controls.values()}  # this toy may end at once in a format it never saw
    said = ask(server, template, messages=messages, temperature=0, max_tokens=20, logit_bias=barred)
    result["content"] += " and a lot of rain"
    longer = ask(server, template, messages=messages, temperature=0, max_tokens=1)
    assert longer.usage.prompt_tokens > said.usage.prompt_tokens, "the model reads the result"
    after = said.choices[0]
    assert after.finish_reason in ("stop", "length", "tool_calls")
    assert after.message.content or after.message.tool_calls


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_required_call_streams_its_name_and_its_arguments(server, template):
    whole = ask(server, template, tool_choice="required").choices[0].message.tool_calls[0].function
    name, arguments, reason, content = "", "", None, ""
    for chunk in ask(server, template, tool_choice="required", stream=True):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            content += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                assert call.index == 0
                name += call.function.name or ""
                arguments += call.function.arguments or ""
    assert (name, arguments) == (whole.name, whole.arguments)
    assert name in ("weather", "clock")
    assert reason == "tool_calls"
    assert content == ""


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_call_that_is_cut_off_stays_a_call_as_far_as_it_came(server, template):
    def cut(**more):
        return ask(server, template, tool_choice={"type": "function", "function": {"name": "weather"}}, **more)

    whole = cut().choices[0].message.tool_calls[0].function.arguments
    for most in range(2, 60, 12):
        choice = cut(max_tokens=most).choices[0]
        if choice.finish_reason == "tool_calls":
            break
        calls = choice.message.tool_calls or []
        assert (choice.finish_reason, choice.message.content or "") == ("length", "")
        assert all(call.function.name == "weather" and whole.startswith(call.function.arguments) for call in calls)
        deltas = [choice.delta for chunk in cut(max_tokens=most, stream=True) for choice in chunk.choices]
        told = [call.function.arguments or "" for delta in deltas for call in delta.tool_calls or ()]
        assert "".join(told) == "".join(call.function.arguments for call in calls)
        assert not any(delta.content for delta in deltas)
    assert most > 10


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_model_that_calls_nothing_just_answers(server, choice):
    done = ask(server, "hermes", tool_choice=choice, temperature=0, max_tokens=12)
    assert done.choices[0].message.content
    assert done.choices[0].message.tool_calls is None
    plain = client(server).chat.completions.create(
        model="tools-hermes", messages=ASK, max_tokens=12, temperature=0
    )  # fmt: skip
    assert (done.usage.prompt_tokens > plain.usage.prompt_tokens) is (choice == "auto")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": MODEL}, "does not support tools"),
        ({"tools": [{"type": "function", "function": {"name": "two words"}}]}, "tools[0].name must be of letters"),
        ({"tools": [], "tool_choice": "required"}, "no tools are given"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "name of one of the tools"),
        ({"response_format": {"type": "json_object"}}, "cannot be offered together"),
        ({"messages": [*ASK, {"role": "tool", "content": "x"}]}, "tool_call_id"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(server, change, told):
    wanted = {"model": "tools-hermes", "messages": ASK, "tools": TOOLS, "max_tokens": 4, **change}
    with pytest.raises(openai.BadRequestError) as caught:
        client(server).chat.completions.create(**wanted)
    assert told in caught.value.body["message"]
