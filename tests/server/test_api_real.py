"""What clients of others' programs ran into, on a real model with drafts of eight: the same answers as undrafted."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from tests.real import QWEN, SMOL, real_model
from tests.server.test_api import MODEL, client
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


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": CITY}}]


@pytest.mark.parametrize(
    ("question", "drafted"),
    [("What is the weather in Paris?", True), ("Tell me the weather in Rome, please.", False)],
)
def test_a_call_that_the_model_writes_without_its_marks_is_a_call(qwen, question, drafted):
    said: dict[str, Any] = {"messages": [{"role": "user", "content": question}], "tools": TOOLS, "max_tokens": 60}
    choice = asked(qwen, drafted, **said).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None), choice
    function = choice.message.tool_calls[0].function
    assert (function.name, json.loads(function.arguments)["city"] in question) == ("get_weather", True)
    parts = [part.choices[0] for part in asked(qwen, drafted, stream=True, **said) if part.choices]
    assert "".join(part.delta.content or "" for part in parts) == ""
    calls = [call.function for part in parts for call in part.delta.tool_calls or ()]
    assert "".join(call.arguments for call in calls) == function.arguments


BEFORE, BEHIND = "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n"


def test_a_completion_with_a_suffix_fills_the_gap(qwen):
    texts = [
        client(qwen).completions.create(
            model="", prompt=BEFORE, suffix=BEHIND, max_tokens=16, temperature=0, extra_body={"speculation": drafted}
        ).choices[0].text
        for drafted in (True, False)
    ]  # fmt: skip
    assert texts[0].strip().startswith("a + b")
    assert texts[0] == texts[1]
    echoed = client(qwen).completions.create(
        model="", prompt=BEFORE, suffix=BEHIND, max_tokens=8, temperature=0, echo=True
    )
    assert echoed.choices[0].text.startswith(BEFORE)


@pytest.mark.parametrize("stream", [False, True])
def test_a_plugin_gets_the_middle_in_llama_cpps_form(qwen, stream):
    body = {"input_prefix": BEFORE, "input_suffix": BEHIND, "n_predict": 16, "temperature": 0, "stream": stream}
    answer = httpx.post(f"{qwen.origin}/infill", json=body, timeout=60)
    assert answer.status_code == 200
    if not stream:
        assert answer.json()["content"].strip().startswith("a + b")
        assert answer.json()["timings"]["predicted_n"] == answer.json()["tokens_predicted"] > 0
        return
    parts = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    assert '"stop": true' in parts[-1]


@pytest.mark.parametrize("extra", [100_000, 300_000])
def test_what_editors_send_along_is_taken_and_trimmed(qwen, extra):
    """Files that fill the context several times over: what stands at the gap is read."""
    files = [{"filename": f"{n}.py", "text": f"def f{n}():\n    return {n}\n" * (extra // 250)} for n in range(10)]
    body = {"input_prefix": BEFORE, "input_suffix": BEHIND, "input_extra": files, "n_predict": 4, "temperature": 0,
            "samplers": ["top_k", "infill"], "t_max_predict_ms": 500}  # fmt: skip
    answer = httpx.post(f"{qwen.origin}/infill", json=body, timeout=300)
    assert (answer.status_code, answer.json()["truncated"]) == (200, True)
    assert answer.json()["tokens_evaluated"] > 500


def test_what_is_too_large_is_told_in_the_form_of_the_api(server):
    for path in ("/infill", "/v1/chat/completions"):
        reply = httpx.post(f"{server.origin}{path}", content=b"x" * (9 << 20), timeout=60)
        assert (reply.status_code, reply.json()["error"]["message"]) == (413, "The request is too large."), path
    small = {"input_prefix": "x" * 100_000, "input_suffix": "y"}
    assert "does not fill gaps" in httpx.post(f"{server.origin}/infill", json=small).json()["error"]["message"]


def test_a_model_without_such_tokens_says_so(server):
    with pytest.raises(openai.BadRequestError, match="does not fill gaps"):
        client(server).completions.create(model=MODEL, prompt=BEFORE, suffix=BEHIND)
    assert httpx.post(f"{server.origin}/infill", json={}).status_code == 400
