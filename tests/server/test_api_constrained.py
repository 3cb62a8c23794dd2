"""Answers that must follow a schema or a grammar, through the official client: on real tiny models, any temperature."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from enum import StrEnum
from typing import Any, Literal

import httpx
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from omnidraft.prompting.grammar import by_bytes, json_grammar
from tests.server.test_api import ASK, MODEL, client

# What people describe with Pydantic: anything, unions, patterns, bounds, open objects, models inside each other.


class Mood(StrEnum):
    good = "good"
    bad = "bad"


class Inner(BaseModel):
    kind: Literal["a", "b"]
    level: int = Field(ge=1, le=5)


class Whatever(BaseModel):
    any: Any
    many: list[Any] = Field(max_length=2)


class Unions(BaseModel):
    one: int | bool | None
    two: Inner | Literal["none"]
    three: list[Inner] = Field(min_length=1, max_length=2)


class Patterns(BaseModel):
    digits: str = Field(pattern=r"^\d{3}-\d$")
    words: str = Field(pattern=r"^\w{1,4}\s\w{1,4}\.$")
    short: str = Field(min_length=2, max_length=5)


class Bounds(BaseModel):
    whole: int = Field(ge=-3, lt=40)
    part: float = Field(gt=0, le=2)
    choice: Mood


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0
    b: bool


class Tree(BaseModel):
    leaf: bool
    below: Tree | None = None


DESCRIBED = [Whatever, Unions, Patterns, Bounds, Open, Tree]


def schema(described):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": described}}


def said(server, **more):
    speculation = more.pop("speculation", True)
    extra = {"speculation": speculation, **more.pop("extra", {})}
    wanted = {"model": MODEL, "messages": ASK, "max_tokens": 200, "seed": 3, **more}
    return client(server).chat.completions.create(**wanted, extra_body=extra).choices[0]


def test_a_grammar_is_followed_and_streams(server):
    grammar = 'root ::= "Day " [0-9] [0-9] ": " ("sun" | "rain") "."'
    stream = client(server).chat.completions.create(
        model=MODEL, messages=ASK, temperature=1, seed=1, stream=True, extra_body={"grammar": grammar}
    )
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    assert re.fullmatch(r"Day \d\d: (sun|rain)\.", text)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "needs a schema"),
        ({"extra_body": {"grammar": "root ::= ("}}, "not valid GBNF"),
        ({"response_format": schema({"$ref": "#"})}, "never ends"),
        ({"extra_body": {"grammar": ""}}, "empty"),
        ({"extra_body": {"grammar": 7}}, "grammar must be"),
        ({"extra_body": {"grammar": 'root ::= "a"'}, "response_format": {"type": "json_object"}}, "together"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_said(server, change, told):
    with pytest.raises(openai.BadRequestError) as caught:
        client(server).chat.completions.create(**{"model": MODEL, "messages": ASK, "max_tokens": 40, **change})
    assert told in caught.value.body["message"]
    assert said(server, max_tokens=2).message.content is not None  # nothing stays held


def test_reading_a_large_schema_keeps_nobody_waiting(server):
    """Other requests are answered while a large schema is turned into a grammar."""
    large = {f"p{i}": {"type": "string", "pattern": f"^[a-z{i}]{{1,9999}}$"} for i in range(400)}
    begun = threading.Event()

    def ask() -> None:
        begun.set()
        with contextlib.suppress(openai.APIStatusError):
            said(server, response_format=schema({"type": "object", "properties": large}), max_tokens=1)

    asking = threading.Thread(target=ask)
    asking.start()
    begun.wait()
    longest = 0.0
    while asking.is_alive():
        start = time.monotonic()
        client(server).models.list()
        longest = max(longest, time.monotonic() - start)
    asking.join()
    assert longest < 5


@pytest.mark.parametrize("model", DESCRIBED, ids=lambda model: model.__name__)
def test_answers_are_what_a_model_of_pydantic_describes(server, model):
    """What is said is valid, or was cut off while it still could become so; the text is the same undrafted."""
    form = schema(model.model_json_schema())
    wanted = {"response_format": form, "temperature": 1, "max_tokens": 160}
    choice, plain = (said(server, speculation=drafted, **wanted) for drafted in (True, False))
    assert choice.message.content == plain.message.content
    if choice.finish_reason == "stop":
        model.model_validate_json(choice.message.content)
    else:
        assert by_bytes(json_grammar(form["json_schema"]["schema"]), ()).try_consume_tokens(
            list(choice.message.content.encode())
        ) == len(choice.message.content.encode())


def test_forced_tokens_are_told_apart(server):
    answer = client(server).chat.completions.create(
        model=MODEL,
        messages=ASK,
        response_format=schema(Bounds.model_json_schema()),
        temperature=0,
        max_tokens=200,
        extra_body={"speculation": True},
    )
    told = answer.model_extra["omnidraft"]
    assert told["forced_accepted"] > 3
    assert told["tokens_per_pass"] > 1.2


TWICE = {"type": "array", "items": {"enum": [7]}, "minItems": 3, "maxItems": 3, "uniqueItems": True}


def told(server, **more) -> list[str]:
    """The notices of an answer."""
    wanted = {"model": MODEL, "messages": ASK, "max_tokens": 100, "temperature": 0, **more}
    return client(server).chat.completions.create(**wanted).model_extra["omnidraft"]["notices"]


def test_what_of_a_schema_is_not_enforced_is_told_and_checked(server):
    notices = told(server, response_format=schema({"type": "object", "properties": {"a": TWICE}, "required": ["a"]}))
    assert any("uniqueItems at #/properties/a" in notice and "Not enforced" in notice for notice in notices)
    assert any("breaks its schema: uniqueItems at #/properties/a/uniqueItems" in notice for notice in notices)
    stream = client(server).chat.completions.create(
        model=MODEL, messages=ASK, max_tokens=100, temperature=0, stream=True, response_format=schema(TWICE)
    )
    *_, last = stream
    assert last.choices[0].finish_reason == "stop"
    assert any("breaks its schema: uniqueItems" in notice for notice in last.model_extra["omnidraft"]["notices"])
    assert told(server, response_format=schema({**TWICE, "uniqueItems": False})) == []
    done = client(server).responses.create(
        model=MODEL, input=ASK[0]["content"], temperature=0,
        text={"format": {"type": "json_schema", "name": "x", "schema": TWICE}},
    )  # fmt: skip
    assert any("uniqueItems" in notice for notice in done.model_extra["omnidraft"]["notices"])


@pytest.mark.parametrize("word", [{"uniqueItems": True}, {"contains": {"const": 7}}, {"not": {"const": [7]}},
                                  {"contentEncoding": "gzip"}, {"contentMediaType": "x/y"},
                                  {"if": {"minItems": 3}, "then": {"maxItems": 2}}])  # fmt: skip
def test_under_strict_it_is_refused_with_the_word_and_its_place(server, word):
    described = {"type": "object", "properties": {"a": {**TWICE, "uniqueItems": False, **word}}, "required": ["a"]}
    strict = {"type": "json_schema", "json_schema": {"name": "x", "schema": described, "strict": True}}
    with pytest.raises(openai.BadRequestError) as caught:
        said(server, response_format=strict)
    assert f"{next(iter(word))} at #/properties/a" in caught.value.body["message"]
    with pytest.raises(openai.BadRequestError) as caught:
        client(server).responses.create(model=MODEL, input="Hi", text={"format": {
            "type": "json_schema", "name": "x", "schema": described, "strict": True}})  # fmt: skip
    assert f"{next(iter(word))} at #/properties/a" in caught.value.body["message"]
    tool = {"type": "function", "function": {"name": "f", "parameters": described, "strict": True}}
    with pytest.raises(openai.BadRequestError, match=f"schema of f cannot be enforced: {next(iter(word))} at"):
        said(server, tools=[tool])


def test_a_schema_beside_json_object_is_followed(server):
    """As llama.cpp's clients send it."""
    for described in (Bounds, Patterns):
        form = {"type": "json_object", "schema": described.model_json_schema()}
        choice = said(server, response_format=form, temperature=1, max_tokens=300)
        assert choice.finish_reason == "stop"
        described.model_validate_json(choice.message.content)
    with pytest.raises(openai.BadRequestError, match="schema must be an object"):
        said(server, response_format={"type": "json_object", "schema": 5})


@pytest.mark.parametrize("name", ["json_schema", "guided_json", "guided_regex", "typical_p", "min_tokens", "schema",
                                  "mirostat", "ignore_eos", "whatever"])  # fmt: skip
def test_a_field_that_would_do_nothing_is_refused_by_name(server, name):
    value = Bounds.model_json_schema() if "json" in name else 2
    with pytest.raises(openai.BadRequestError, match=f"^Error code: 400 - {name} is not known here"):
        said(server, extra={name: value})
    for path, given in ("completions", "prompt"), ("responses", "input"), ("embeddings", "input"):
        reply = httpx.post(f"{server.origin}/v1/{path}", json={"model": MODEL, given: "Hi", name: value})
        assert (reply.status_code, reply.json()["error"]["message"].split()[0]) == (400, name), path
    assert said(server, extra={name: None, "user": "me", "cache_prompt": True}, max_tokens=2).message.content
