"""What clients of others' programs ran into, on a real model with drafts of eight: the same answers as undrafted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.real import QWEN, SMOL, real_model
from tests.server.test_api import client
from tests.serving import SETTINGS, serving

DRAFTS = '\n[draft]\nmode = "fixed"\nlength = 8\n'
REPEAT = [{"role": "user", "content": "Repeat exactly: alpha beta gamma delta epsilon"}]
COUNT = [{"role": "user", "content": "Count from 1 to 50, with commas between."}]


@pytest.fixture(scope="module")
def smol(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smol")
    with serving(folder, "--target", str(real_model(SMOL)), settings=SETTINGS + DRAFTS) as running:
        yield running


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("qwen"), "--target", str(real_model(QWEN)), settings=SETTINGS) as running:
        yield running


def asked(server, drafted: bool, **more: Any):
    given = {"model": "", "temperature": 0, **more}
    return client(server).chat.completions.create(**given, extra_body={"speculation": drafted})


def test_log_probabilities_are_the_targets_own_at_every_position(smol):
    found = []
    for drafted in (True, False):
        done = client(smol).completions.create(
            model="", prompt="The capital of France is", max_tokens=24, temperature=0, logprobs=3,
            extra_body={"speculation": drafted},
        )  # fmt: skip
        found.append((done.choices[0].logprobs.tokens, done.choices[0].logprobs.token_logprobs, done.omnidraft))
    (tokens, values, drafted), (others, plain, undrafted) = found
    assert drafted["accepted"] > 0 == undrafted["accepted"]
    assert tokens == others
    assert values == plain
    assert all(value < 0 for value in values)


@pytest.mark.parametrize("drafted", [True, False])
def test_a_prompt_is_scored_with_the_targets_own_log_probabilities(smol, drafted):
    def scored(prompt: str):
        done = client(smol).completions.create(
            model="", prompt=prompt, max_tokens=0, echo=True, logprobs=1, extra_body={"speculation": drafted}
        )
        return done.choices[0].text, done.choices[0].logprobs.token_logprobs

    right, wrong = "The capital of France is Paris.", "The capital of France is Oslo."
    (text, of_right), (_, of_wrong) = scored(right), scored(wrong)
    assert (text, of_right[0]) == (right, None)
    assert of_right[1:5] == of_wrong[1:5]
    assert sum(of_right[1:]) > sum(of_wrong[1:]) + 2


@pytest.mark.parametrize("longest", range(1, 13))
def test_a_stop_within_the_budget_ends_it_and_nothing_stands_behind(smol, longest):
    done, plain = (asked(smol, d, messages=REPEAT, stop=["gamma"], max_tokens=longest) for d in (True, False))
    said, reason = done.choices[0].message.content, done.choices[0].finish_reason
    assert (said, reason) == (plain.choices[0].message.content, plain.choices[0].finish_reason)
    assert "gamma" not in said
    assert reason == "stop" or done.usage.completion_tokens == longest


@pytest.mark.parametrize("longest", [1, 2, 5, 9, 16])
def test_an_answer_cut_by_its_length_has_as_many_tokens_as_were_asked_for(smol, longest):
    done = asked(smol, True, messages=COUNT, max_tokens=longest, logprobs=True)
    assert done.choices[0].finish_reason == "length"
    assert len(done.choices[0].logprobs.content) == done.usage.completion_tokens == longest
    stream = client(smol).chat.completions.create(
        model="", messages=COUNT, max_tokens=longest, temperature=0, stream=True, logprobs=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    entries, usage = 0, None
    for part in stream:
        usage = part.usage or usage
        entries += sum(len(choice.logprobs.content) for choice in part.choices if choice.logprobs)
    assert entries == usage.completion_tokens == longest


def test_penalties_see_what_was_verified_alone(smol):
    penalties = {"presence_penalty": 1.0, "frequency_penalty": 0.5}
    done, plain = (asked(smol, d, messages=COUNT, max_tokens=60, **penalties) for d in (True, False))
    assert done.choices[0].message.content == plain.choices[0].message.content


def test_messages_in_an_unusual_order_are_answered(smol):
    odd = [{"role": "system", "content": "Be brief."}, *REPEAT, {"role": "user", "content": "And what is gravity?"}]
    assert asked(smol, True, messages=odd, max_tokens=12).choices[0].message.content


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": CITY}}]


@pytest.mark.parametrize("drafted", [True, False])
@pytest.mark.parametrize("question", ["What is the weather in Paris?", "Tell me the weather in Rome, please."])
def test_a_call_that_the_model_writes_without_its_marks_is_a_call(qwen, drafted, question):
    said: dict[str, Any] = {"messages": [{"role": "user", "content": question}], "tools": TOOLS, "max_tokens": 60}
    choice = asked(qwen, drafted, **said).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None), choice
    function = choice.message.tool_calls[0].function
    assert (function.name, json.loads(function.arguments)["city"] in question) == ("get_weather", True)
    parts = [part.choices[0] for part in asked(qwen, drafted, stream=True, **said) if part.choices]
    assert "".join(part.delta.content or "" for part in parts) == ""
    calls = [call.function for part in parts for call in part.delta.tool_calls or ()]
    assert "".join(call.arguments for call in calls) == function.arguments
