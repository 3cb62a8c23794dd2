"""Completions, log probabilities, several choices, penalties and embeddings through the official client."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from omnidraft.storage.paths import BUNDLED_MODELS
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.server.test_api import ASK, MODEL, client

PROMPT = "Once there was a"


def chat(server, speculation: bool = True, **more):
    wanted = {"model": MODEL, "messages": ASK, "max_tokens": 24, "temperature": 0, **more}
    return client(server).chat.completions.create(**wanted, extra_body={"speculation": speculation})


def complete(server, speculation: bool = True, **more):
    wanted = {"model": MODEL, "prompt": PROMPT, "max_tokens": 16, "temperature": 0, **more}
    return client(server).completions.create(**wanted, extra_body={"speculation": speculation})


# Completions


def test_a_text_goes_on_without_a_template(server):
    done = complete(server)
    (choice,) = done.choices
    assert done.object == "text_completion"
    assert choice.text
    assert choice.finish_reason in ("stop", "length")
    assert done.usage.completion_tokens <= 16
    assert done.usage.prompt_tokens < chat(server, messages=[{"role": "user", "content": PROMPT}]).usage.prompt_tokens
    assert complete(server, speculation=False).choices[0].text == choice.text
    longer = complete(server, prompt=PROMPT + choice.text, max_tokens=8)
    whole = complete(server, max_tokens=24)
    if choice.finish_reason == "length":
        assert (PROMPT + whole.choices[0].text).startswith(PROMPT + choice.text)
    assert longer.usage.prompt_tokens > done.usage.prompt_tokens


def test_several_prompts_are_several_choices_and_echo_repeats_them(server):
    prompts = [PROMPT, "The weather in Paris"]
    done = complete(server, prompt=prompts, n=2, echo=True)
    assert [choice.index for choice in done.choices] == [0, 1, 2, 3]
    assert all(c.text.startswith(prompts[c.index // 2]) for c in done.choices)
    alone = [complete(server, prompt=prompt).usage.prompt_tokens for prompt in prompts]
    assert done.usage.prompt_tokens == sum(alone)


# Log probabilities


@pytest.mark.parametrize("temperature", [0, 1])
def test_logprobs_are_the_targets_and_drafting_does_not_change_them(server, temperature):
    asked = {"logprobs": True, "top_logprobs": 4, "temperature": temperature, "seed": 8}
    drafted, plain = chat(server, **asked).choices[0], chat(server, False, **asked).choices[0]
    assert drafted.message.content == plain.message.content
    assert (
        b"".join(bytes(e.bytes) for e in drafted.logprobs.content).decode().strip() == drafted.message.content.strip()
    )
    assert len(drafted.logprobs.content) == len(plain.logprobs.content) > 0
    for one, other in zip(drafted.logprobs.content, plain.logprobs.content, strict=True):
        assert one.token == other.token
        assert one.logprob == pytest.approx(other.logprob, abs=0.02)  # passes of other widths round differently
        assert [t.logprob for t in one.top_logprobs] == pytest.approx([t.logprob for t in other.top_logprobs], abs=0.02)
        assert len(one.top_logprobs) == 4
        likeliest = one.top_logprobs[0].logprob
        assert likeliest >= one.logprob
        assert sum(math.exp(t.logprob) for t in one.top_logprobs) <= 1 + 1e-6
        if temperature == 0:
            assert (one.top_logprobs[0].token, likeliest) == (one.token, one.logprob)


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_bias_is_the_targets_and_drafting_does_not_change_the_text(server, temperature):
    asked = {"temperature": temperature, "seed": 4, "max_tokens": 30}
    vocabulary = read_gguf_vocabulary(BUNDLED_MODELS / f"{MODEL}.gguf")
    free = chat(server, **asked).choices[0].message.content
    banned = vocabulary.encode(free)
    for bias in ({str(id): -100 for id in banned}, {str(banned[0]): 4, str(banned[-1]): -2.5}):
        drafted = chat(server, **asked, logit_bias=bias).choices[0].message.content
        assert drafted == chat(server, False, **asked, logit_bias=bias).choices[0].message.content
    pairs = client(server).chat.completions.create(
        model=MODEL, messages=ASK, **asked, extra_body={"logit_bias": [[id, False] for id in banned]}
    )
    banning = chat(server, **asked, logit_bias={str(id): -100 for id in banned})
    assert pairs.choices[0].message.content == banning.choices[0].message.content != free
    kept = complete(server, **asked, logit_bias={str(banned[0]): 100}).choices[0].text
    assert set(kept) <= set(vocabulary.pieces[banned[0]].decode()), "nothing else comes up against the highest bias"


def test_logprobs_of_a_completion_have_their_own_form(server):
    choice = complete(server, logprobs=3, temperature=1, seed=5, echo=False).choices[0]
    told = choice.logprobs
    assert "".join(told.tokens).strip() == choice.text.strip()
    assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs) == len(told.text_offset)
    for token, logprob, top in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
        assert top[token] == logprob
        assert 3 <= len(top) <= 4 or len(set(top)) < 3
    assert told.text_offset[0] == 0
    lengths = [len(token) for token in told.tokens]
    assert told.text_offset == [0, *itertools.accumulate(lengths[:-1])]


@pytest.mark.parametrize("speculation", [True, False])
def test_a_prompt_is_scored_as_it_is_when_it_was_written(server, speculation):
    written = complete(server, logprobs=2).choices[0]
    text = PROMPT + written.text
    scored = complete(server, speculation, prompt=text, max_tokens=0, logprobs=2, echo=True)
    (choice,) = scored.choices
    assert (choice.text, choice.finish_reason, scored.usage.completion_tokens) == (text, "length", 0)
    told = choice.logprobs
    assert "".join(told.tokens).removeprefix("<|begin_of_text|>") == text
    assert (told.token_logprobs[0], told.top_logprobs[0]) == (None, None)
    assert all(value < 0 for value in told.token_logprobs[1:])
    offsets = [text.find(token, at) for token, at in zip(told.tokens[1:], told.text_offset[1:], strict=True)]
    assert offsets == told.text_offset[1:]
    count = len(written.logprobs.tokens)
    assert told.tokens[-count:] == written.logprobs.tokens
    assert told.token_logprobs[-count:] == pytest.approx(written.logprobs.token_logprobs, abs=0.02)
    assert len(told.top_logprobs[-1]) >= 2


def test_the_same_as_ids_in_a_stream_and_with_an_answer_behind(server):
    ids = read_gguf_vocabulary(BUNDLED_MODELS / f"{MODEL}.gguf").encode(PROMPT)
    asked = {"prompt": [ids, ids], "logprobs": 0, "echo": True}
    scored = complete(server, max_tokens=0, **asked)
    assert [len(choice.logprobs.tokens) for choice in scored.choices] == [len(ids)] * 2, "what a harness counts on"
    whole, plain = complete(server, max_tokens=5, **asked), complete(server, prompt=ids, max_tokens=5, logprobs=0)
    assert [choice.text for choice in whole.choices] == [PROMPT + plain.choices[0].text] * 2
    first, said = whole.choices[0].logprobs, plain.choices[0].logprobs
    assert first.token_logprobs[: len(ids)] == scored.choices[0].logprobs.token_logprobs
    assert first.tokens[len(ids) :] == said.tokens
    assert first.token_logprobs[len(ids) :] == pytest.approx(said.token_logprobs, abs=0.02)
    assert first.text_offset[len(ids) :] == [len(PROMPT) + at for at in said.text_offset]
    texts, values = ["", ""], [[], []]
    for chunk in complete(server, max_tokens=5, stream=True, **asked):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            values[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
    assert texts == [choice.text for choice in whole.choices]
    assert values == [choice.logprobs.token_logprobs for choice in whole.choices]


# Several choices


def test_n_choices_differ_and_a_seed_brings_them_again(server):
    asked = {"n": 3, "temperature": 1, "seed": 21}
    first, again = chat(server, **asked), chat(server, **asked)
    texts = [choice.message.content for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    assert texts == [choice.message.content for choice in again.choices]
    assert texts == [choice.message.content for choice in chat(server, False, **asked).choices]
    assert len(set(texts)) > 1
    alone = chat(server, temperature=1, seed=21)
    assert alone.choices[0].message.content == texts[0]
    assert first.usage.prompt_tokens == alone.usage.prompt_tokens


# Embeddings


def test_embeddings_are_unit_vectors_that_tell_texts_apart(server):
    texts = ["The weather in Paris is nice.", "The weather in Paris is fine.", "Two plus two makes four."]
    done = client(server).embeddings.create(model=MODEL, input=texts)
    vectors = np.array([one.embedding for one in done.data])
    assert [one.index for one in done.data] == [0, 1, 2]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > far
    assert done.usage.prompt_tokens == done.usage.total_tokens > 0
    again = client(server).embeddings.create(model=MODEL, input=texts[1], encoding_format="float")
    np.testing.assert_allclose(again.data[0].embedding, vectors[1], atol=1e-5)


# Refusals


REFUSED = [
    ("completions", {"prompt": ""}, None),
    ("completions", {"prompt": []}, "prompt must be"),
    ("completions", {"prompt": 5}, "prompt must be"),
    ("completions", {"prompt": [1, "x"]}, "prompt must be"),
    ("completions", {"prompt": [10**9]}, "does not know"),
    ("completions", {"prompt": "x", "logit_bias": {"999999": 1}}, "logit_bias has token ids that"),
    ("completions", {"prompt": "x", "best_of": 4}, "best_of"),
    ("completions", {"prompt": "x", "max_tokens": -1}, "max_tokens"),
    ("completions", {"prompt": "x", "max_tokens": False}, "max_tokens"),
    ("chat/completions", {"messages": ASK, "max_tokens": 0}, "max_tokens"),
    ("completions", {"prompt": "x", "logprobs": 21}, "at most 20"),
    ("embeddings", {"input": ""}, "must not be empty"),
    ("embeddings", {"input": ["a", ""]}, "must not be empty"),
    ("embeddings", {"input": {}}, "input must be"),
    ("embeddings", {"input": [-1]}, "does not know"),
    ("embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ("embeddings", {"input": "a", "dimensions": 7}, "dimensions can only be"),
]


@pytest.mark.parametrize(("route", "body", "told"), REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(server, route, body, told):
    short = {} if route == "embeddings" else {"max_tokens": 2}
    status, answer = post(server, route, {"model": MODEL, **short, **body})
    if told is None:
        assert status == 200
        return
    assert status == 400
    assert told in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(("route", "body"), [
    ("completions", {"prompt": "word " * 9000}),
    ("completions", {"prompt": [5] * 9000}),
    ("chat/completions", {"messages": [{"role": "user", "content": "word " * 9000}]}),
    ("chat/completions", {"messages": [{"role": "user", "content": "word " * 9000}], "stream": True}),
    ("embeddings", {"input": "word " * 9000}),
])  # fmt: skip
def test_what_is_too_long_is_told_by_its_code(server, route, body):
    status, answer = post(server, route, {"model": MODEL, **body})
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert answer["error"]["type"] == "invalid_request_error"
    assert "n_ctx" not in answer["error"]["message"]
    assert chat(server).choices[0].message.content, "and the next one is answered"


def post(server, route: str, body: dict) -> tuple[int, dict]:
    status, _, said = server.ask("POST", f"/v1/{route}", body)
    return status, json.loads(said)
