"""Answers that must follow a schema or a grammar, through the official client: on real tiny models, any temperature."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time

import openai
import pytest

from omnidraft.backends.prompting.grammar import by_bytes, json_grammar
from omnidraft.decoding.request import AnswerRequest
from tests.server.described import MODELS
from tests.server.test_api import ASK, MODEL, client
from tests.serving import served

server = served()

SCHEMA = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["good", "bad"]},
        "words": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 1, "maxItems": 3},
        "count": {"type": "integer"},
        "inner": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
    },
    "required": ["mood", "words", "inner"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "day", "schema": SCHEMA}}


def schema(described):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": described}}


def said(server, **more):
    speculation = more.pop("speculation", True)
    extra = {"speculation": speculation, **more.pop("extra", {})}
    wanted = {"model": MODEL, "messages": ASK, "max_tokens": 200, "seed": 3, **more}
    return client(server).chat.completions.create(**wanted, extra_body=extra).choices[0]


def follows(value) -> bool:
    """Whether `value` is what SCHEMA describes, checked by hand."""
    return (
        set(value) <= {"mood", "words", "count", "inner"}
        and value["mood"] in ("good", "bad")
        and 1 <= len(value["words"]) <= 3
        and all(isinstance(w, str) and len(w) <= 6 for w in value["words"])
        and isinstance(value.get("count", 0), int)
        and isinstance(value["inner"]["ok"], bool)
        and set(value["inner"]) == {"ok"}
    )


@pytest.mark.parametrize("temperature", [0, 1])
def test_an_answer_follows_its_schema_with_and_without_a_drafter(server, temperature):
    drafted = said(server, response_format=FORMAT, temperature=temperature)
    plain = said(server, response_format=FORMAT, temperature=temperature, speculation=False)
    assert drafted.message.content == plain.message.content
    assert drafted.finish_reason == "stop"
    assert follows(json.loads(drafted.message.content))


def test_a_grammar_is_followed_and_streams(server):
    grammar = 'root ::= "Day " [0-9] [0-9] ": " ("sun" | "rain") "."'
    stream = client(server).chat.completions.create(
        model=MODEL, messages=ASK, temperature=1, seed=1, stream=True, extra_body={"grammar": grammar}
    )
    text = "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)
    assert re.fullmatch(r"Day \d\d: (sun|rain)\.", text)


def test_any_object_is_an_object_as_far_as_it_got(server):
    choice = said(server, response_format={"type": "json_object"}, temperature=0, max_tokens=40)
    assert choice.message.content.startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


def test_rejection_steps_aside(models, tmp_path):
    """On the assistant itself: the settings of the running app are the other tests'."""
    from omnidraft.app.assistant import Assistant
    from omnidraft.backends.prompting.grammar import gbnf_grammar
    from omnidraft.decoding.events import Notice, Token
    from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
    from omnidraft.storage.paths import find_data_home

    assistant = Assistant(find_data_home(tmp_path))
    settings = ModelSettings(n_ctx=256, threads=1, exact="bits")
    assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", settings)
    texts, notices = [], []
    letters, sampling = gbnf_grammar("root ::= [a-z ]+"), SamplingSettings(seed=5, max_tokens=30)
    for draft in (DraftSettings(verification="rejection", mode="fixed"), DraftSettings(enabled=False)):
        events = list(assistant.answer(AnswerRequest(ASK, sampling, draft, grammar=letters)))
        texts.append("".join(event.text for event in events if isinstance(event, Token)))
        notices.append([event.text for event in events if isinstance(event, Notice)])
    assistant.close()
    assert texts[0] == texts[1]
    assert re.fullmatch("[a-z ]+", texts[0])
    assert "coupled" in notices[0][0]
    assert notices[1] == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "json_schema.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"$ref": "https://example.org/x.json"}}}}, "cannot be turned into a grammar"),
        ({"extra_body": {"grammar": "root ::= ("}}, "not valid GBNF"),
        ({"extra_body": {"grammar": "root ::= " + "(" * 5000 + '"a"' + ")" * 5000}}, "nests"),
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


@pytest.mark.parametrize("limits", [{"maxLength": 10**9}, {"minLength": 3, "maxLength": 500}])
def test_ordinary_and_huge_limits_are_followed(server, limits):
    whole = {"type": "object", "properties": {"a": {"type": "string", **limits}}, "required": ["a"]}
    choice = said(server, response_format=schema(whole), temperature=1, max_tokens=120)
    assert re.match(r'\{ ?"a" ?: ?"', choice.message.content)
    if choice.finish_reason == "stop":
        assert limits.get("minLength", 0) <= len(json.loads(choice.message.content)["a"]) <= limits["maxLength"]


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


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_answers_are_what_a_model_of_pydantic_describes(server, model, temperature):
    """What is said is valid, or was cut off while it still could become so; the text is the same undrafted."""
    form = schema(model.model_json_schema())
    wanted = {"response_format": form, "temperature": temperature, "max_tokens": 160}
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
        response_format=FORMAT,
        temperature=0,
        max_tokens=200,
        extra_body={"speculation": True},
    )
    told = answer.model_extra["omnidraft"]
    assert told["forced_accepted"] > 3
    assert told["tokens_per_pass"] > 1.2
