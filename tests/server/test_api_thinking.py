"""Thinking through the official client: switched by what the template knows, refused by name where it knows nothing."""

from __future__ import annotations

import openai
import pytest

from tests.prompting.thinking_templates import TEMPLATES
from tests.server.test_api import ASK, MODEL, client
from tests.serving import served_with

server = served_with(TEMPLATES, "thinks-")


def ask(server, template: str, messages=ASK, **extra):
    """A choice and how many tokens its prompt had."""
    answer = client(server).chat.completions.create(
        model=f"thinks-{template}" if template else MODEL, messages=messages, extra_body={"max_tokens": 8, **extra}
    )
    return answer.choices[0], answer.usage.prompt_tokens


def test_the_same_switch_has_one_meaning_whatever_the_template_calls_it(server):
    prompts = {ask(server, "opened", **told)[1] for told in (
        {"enable_thinking": False}, {"reasoning_effort": "none"}, {"chat_template_kwargs": {"thinking": False}}
    )}  # fmt: skip
    assert len(prompts) == 1
    thought, _ = ask(server, "opened")
    answered, _ = ask(server, "opened", enable_thinking=False)
    assert thought.message.reasoning_content
    assert not thought.message.content
    assert answered.message.content
    assert not hasattr(answered.message, "reasoning_content")


@pytest.mark.parametrize(
    ("template", "told", "named"),
    [
        ("switched", {"chat_template_kwargs": {"thinking_budget": 3}}, "thinking_budget"),
        ("switched", {"chat_template_kwargs": {"messages": []}}, "messages"),
        ("switched", {"reasoning_effort": "high"}, "reasoning_effort"),
        ("effort", {"reasoning_effort": "enormous"}, "no such effort"),
        ("", {"enable_thinking": False}, "enable_thinking"),
        ("", {"reasoning_effort": "low"}, "reasoning_effort"),
        ("effort", {"enable_thinking": "no"}, "enable_thinking must be"),
        ("effort", {"chat_template_kwargs": 3}, "chat_template_kwargs must be"),
    ],
)
def test_an_option_that_does_nothing_is_refused_by_its_name(server, template, told, named):
    with pytest.raises(openai.BadRequestError, match=named):
        ask(server, template, **told)


def test_earlier_thoughts_are_read_where_the_template_shows_them(server):
    said = {"role": "assistant", "content": "So."}
    later = [*ASK, {**said, "reasoning_content": "Let me see."}, {"role": "user", "content": "And?"}]
    plain = [*ASK, said, {"role": "user", "content": "And?"}]
    assert ask(server, "switched", later)[1] > ask(server, "switched", plain)[1]
    assert ask(server, "", later)[1] == ask(server, "", plain)[1]


def test_json_comes_behind_open_thoughts_or_at_once(server):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes"]}}}
    thinking, _ = ask(server, "opened", response_format=form)
    assert thinking.message.reasoning_content
    assert not thinking.message.reasoning_content.lstrip().startswith('"yes')
    silent, _ = ask(server, "opened", response_format=form, enable_thinking=False)
    assert silent.message.content == '"yes"'


def test_a_response_names_the_option_as_it_was_sent(server):
    with pytest.raises(openai.BadRequestError, match=r"reasoning\.effort does nothing"):
        client(server).responses.create(model=MODEL, input="Hi", reasoning={"effort": "low"})
    sent = {"model": "thinks-switched", "input": ASK[0]["content"], "max_output_tokens": 1}
    read = [client(server).responses.create(**sent, **more).usage.input_tokens
            for more in ({}, {"reasoning": {"effort": "none"}})]  # fmt: skip
    assert read[0] != read[1]
