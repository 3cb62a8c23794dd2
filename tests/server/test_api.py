"""The API through the official client: answers, streams, statistics, errors."""

from __future__ import annotations

import httpx
import openai
import pytest

MODEL = "tiny-target-a-f16"
ASK = [{"role": "user", "content": "Tell me about your day."}]


def client(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.origin}/v1", api_key="unused", max_retries=0, timeout=60)


def test_models_are_listed(server):
    found = [model.id for model in client(server).models.list()]
    assert MODEL in found
    assert "tiny-drafter-f16" not in found
    assert client(server).models.retrieve(MODEL).id == MODEL


def test_an_answer_with_usage_and_statistics(server):
    done = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=20, temperature=0)
    assert done.choices[0].message.content
    assert done.choices[0].finish_reason in ("stop", "length")
    assert done.usage.completion_tokens <= 20
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert set(done.omnidraft) >= {"acceptance_rate", "tokens_per_pass", "proposed", "accepted"}
    as_llama_cpp_names_them = ("predicted_n", "draft_n", "draft_n_accepted")
    assert [done.timings[name] for name in as_llama_cpp_names_them] == [
        done.usage.completion_tokens, done.omnidraft["proposed"], done.omnidraft["accepted"],
    ]  # fmt: skip
    off = client(server).chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=8, extra_body={"speculation": False}
    )
    assert off.timings["draft_disabled_reason"]


def test_a_stream_spells_the_same_text(server):
    whole = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=30, temperature=0)
    stream = client(server).chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=30, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    text, reason, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
    assert text == whole.choices[0].message.content
    assert reason == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_a_stop_text_ends_the_answer_and_is_not_shown(server):
    whole = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=30, temperature=0)
    text = whole.choices[0].message.content
    stop = text.split()[1]
    cut = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=30, temperature=0, stop=[stop])
    assert cut.choices[0].message.content == text[: text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"


def test_a_model_that_is_not_there_is_not_found(server):
    with pytest.raises(openai.NotFoundError) as caught:
        client(server).chat.completions.create(model="no-such-model", messages=ASK, max_tokens=4)
    assert caught.value.body["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        ("GET", "/v1/chat/completions", 405, "takes POST, not GET"), ("DELETE", "/v1/models", 405, "takes GET"),
        ("POST", "/v1/audio/speech", 404, "There is no /v1/audio/speech here."),
        ("GET", "/infill", 405, "takes POST, not GET"), ("PUT", "/v1/models", 405, "takes GET and HEAD, not PUT"),
    ],
)  # fmt: skip
def test_what_the_api_does_not_have_is_told_in_its_own_form(server, method, path, status, word):
    reply = httpx.request(method, f"{server.origin}{path}")
    assert reply.status_code == status
    assert word in reply.json()["error"]["message"]


def test_what_a_path_takes_can_be_asked_for(server):
    asked = httpx.options(f"{server.origin}/v1/chat/completions")
    assert (asked.status_code, asked.headers["allow"], asked.content) == (204, "POST", b"")
    head, whole = (httpx.request(method, f"{server.origin}/v1/models") for method in ("HEAD", "GET"))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_an_answer_that_was_begun_is_gone_on_with(server):
    """As "continue", agents and editors send it: the last message is the assistant's, and only what is new is told."""
    whole = client(server).chat.completions.create(model=MODEL, messages=ASK, max_tokens=24, temperature=0)
    said = whole.choices[0].message.content
    begun = said[: len(said) // 2].rpartition(" ")[0]
    messages = [*ASK, {"role": "assistant", "content": begun}]
    more = client(server).chat.completions.create(model=MODEL, messages=messages, max_tokens=24, temperature=0)
    assert more.choices[0].message.content
    assert not more.choices[0].message.content.startswith(begun)
    assert (begun + more.choices[0].message.content).startswith(said[: len(begun) + 3])
