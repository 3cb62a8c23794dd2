"""Answers that must follow a schema or a grammar, through the official client: on real tiny models, any temperature."""

from __future__ import annotations

import json
import re

import openai
import pytest

from tests.ui.test_api import ASK, MODEL, client

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


def test_other_seeds_say_other_things_within_the_schema(server):
    texts = {said(server, response_format=FORMAT, temperature=1, seed=seed).message.content for seed in range(4)}
    assert len(texts) > 1
    assert all(follows(json.loads(text)) for text in texts)


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


@pytest.mark.parametrize("verification", ["rejection", "paper"])
def test_other_verifications_step_aside(models, tmp_path, verification):
    """On the assistant itself: the settings of the running app are the other tests'."""
    from omnidraft.app.assistant import Assistant
    from omnidraft.backends.grammar import Grammar
    from omnidraft.config import DraftSettings, ModelSettings, SamplingSettings
    from omnidraft.decoding.events import Notice, Token
    from omnidraft.paths import find_data_home

    assistant = Assistant(find_data_home(tmp_path))
    assistant.load(
        models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ModelSettings(n_ctx=256, threads=1)
    )
    texts, notices = [], []
    for draft in (
        DraftSettings(verification=verification, mode="fixed"),
        DraftSettings(enabled=False),
    ):
        events = list(
            assistant.answer(ASK, SamplingSettings(seed=5, max_tokens=30), draft, grammar=Grammar("root ::= [a-z ]+"))
        )
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
        ({"extra_body": {"grammar": 'x ::= "a"'}}, "not valid GBNF"),
        ({"extra_body": {"grammar": "root ::= root"}}, "not valid GBNF"),
        ({"extra_body": {"grammar": "root ::= " + "(" * 5000 + '"a"' + ")" * 5000}}, "nests"),
        ({"extra_body": {"grammar": ""}}, "empty"),
        ({"extra_body": {"grammar": 7}}, "grammar must be"),
        ({"extra_body": {"grammar": 'root ::= "a"'}, "response_format": {"type": "json_object"}}, "together"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_said(server, change, told):
    with pytest.raises(openai.BadRequestError) as caught:
        client(server).chat.completions.create(**{"model": MODEL, "messages": ASK, "max_tokens": 4, **change})
    assert told in caught.value.body["message"]
