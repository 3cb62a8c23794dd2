"""Calls without the marks of the model's template: an answer that is one JSON object, and what only looks like one."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from omnidraft.prompting.formats.chat_format import Call, ChatFormat, Content, collect
from omnidraft.prompting.formats.reader import AnswerReader
from tests.prompting.reading import format_of_source, read
from tests.prompting.tool_templates import TEMPLATES

PARAMETERS = {
    "type": "object",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "maxLength": 12, "pattern": "^(a+)+$"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"$ref": "#/$defs/unit"},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}},
        "tags": {"type": "array", "items": {"enum": ["rain", "{{wind}}"]}},
    },
    "$defs": {"unit": {"enum": ["C", "F"]}},
}
TOOLS = {
    "weather": PARAMETERS, "clock": {"type": "object", "properties": {}}, "free": {},
    "broken": {"type": "nothing"}, "far": {"$ref": "http://127.0.0.1:9/schema.json"}, "lost": {"$ref": "#/$defs/none"},
}  # fmt: skip
OSLO = {"city": "Oslo"}
CALL = '{"name": "weather", "arguments": {"city": "Oslo"}}'
PRETTY = json.dumps(json.loads(CALL), indent=2)
ALL_DOUBLED = CALL.replace("{", "{{").replace("}", "}}")


@cache
def hermes() -> ChatFormat:
    return format_of_source(TEMPLATES["hermes"])


def weather(**arguments: Any) -> str:
    return json.dumps({"name": "weather", "arguments": arguments}, ensure_ascii=False)


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """An answer, and what it calls with which arguments."""
    for text in (
        CALL, f"```json\n{CALL}\n```", f"```json\n{CALL}\n```\n", f"```\n{CALL}\n```", f"```json {CALL} ```",
        f"```json\n{CALL}", f"```json{CALL}```", f"\n\n{CALL}", f"  ```json\n{CALL}\n```  \n", PRETTY,
        f"```json\n{PRETTY}\n```", f"```tool_call\n{CALL}\n```", f"{{{CALL}}}", f"{{{CALL} }}", ALL_DOUBLED,
        f"```json\n{{{CALL}}}\n```", f"```json\n{ALL_DOUBLED}\n```", CALL.replace(" ", ""),
        '{"arguments": {"city": "Oslo"}, "name": "weather"}', '{"name": "weather", "parameters": {"city": "Oslo"}}',
        '{"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}',
        '{"id": "call_1", "name": "weather", "arguments": {"city": "Oslo"}}',
        '{"function": "weather", "args": {"city": "Oslo"}}',
        '{"name": "functions.weather", "arguments": {"city": "Oslo"}}',
        r'{"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}',
    ):  # fmt: skip
        yield text, "weather", OSLO
    yield weather(city="Ås", days=3, unit="C"), "weather", {"city": "Ås", "days": 3, "unit": "C"}
    yield weather(city="a\n}```{", where={"x": 1.5}), "weather", {"city": "a\n}```{", "where": {"x": 1.5}}
    yield weather(city="", tags=["{{wind}}", "rain"]), "weather", {"city": "", "tags": ["{{wind}}", "rain"]}
    yield weather(city="a" * 11 + "!"), "weather", {"city": "a" * 11 + "!"}  # no pattern keeps anybody waiting
    yield '{"name": "clock", "arguments": {}}', "clock", {}
    yield '{"name": "clock", "arguments": null}', "clock", {}
    yield '```json\n{"name": "free", "arguments": {"a": [1, {"b": null}]}}\n```', "free", {"a": [1, {"b": None}]}


TEXTS = [
    "", "{", "{}", "{{}}", "```", "``", "```json", "```json\n", "```json\n```", "```json\n{}\n```", "` {", '{"a": 1}',
    f"Sure: {CALL}", f"{CALL} is how to ask.", f"```json\n{CALL}\n```\nThis asks for the weather.", f"{CALL}\n{CALL}",
    f"```json\n{CALL}\n```\n```json\n{CALL}\n```", f"[{CALL}]", f"```python\n{CALL}\n```", f"``{CALL}``",
    CALL[:-1], f"{CALL}}}", f"{{{CALL}", f"{{{{{CALL}}}}}", f"{CALL}```", CALL.replace('"', "'"),
    CALL.replace(":", "="),
    '{"name": "other", "arguments": {"city": "Oslo"}}', '{"name": "weather"}', '{"name": "clock"}',
    '{"name": "weather", "arguments": {}}', '{"name": "weather", "arguments": []}', weather(city=3), weather(town="x"),
    weather(city="a" * 13), weather(city="Oslo", days=0), weather(city="Oslo", unit="K"), weather(city="Oslo", more=1),
    weather(city="Oslo", where={"y": 1}), weather(city="Oslo", tags=["sun"]),
    '{"name": "clock", "arguments": {"a": 1}}',
    '{"name": "weather", "arguments": {"city": "Oslo"}, "result": "rain"}',
    '{"name": "weather", "description": "Tells it.", "parameters": {"city": "Oslo"}}',
    json.dumps({"name": "weather", "parameters": PARAMETERS}), '{"name": ["weather"], "arguments": {"city": "Oslo"}}',
    '{"name": "weather", "arguments": {"city": "Oslo",}}', '{"name": "weather", "arguments": {"city": "Oslo"},}',
    '{"name": "weather", "arguments": {"city": "Oslo"} "x"}', '{"name": "weather", "arguments": {"city": NaN}}',
    '{"name": "free", "arguments": {"a": NaN}}', '{"name": "broken", "arguments": {"a": 1}}',
    '{"name": "far", "arguments": {"a": 1}}', '{"name": "lost", "arguments": {"a": 1}}',
    '{"name": "free", "arguments": ' + '{"a": ' * 600 + "1" + "}" * 601, "{{ user.name }}",
    f"{{ {CALL} }}", '{ "na', '{"name": "wea',
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "arguments"), list(calls()))
def test_one_json_object_that_calls_is_a_call(text, name, arguments):
    for size in (0, 1, 5):
        got = read(hermes(), text, TOOLS, size=size)
        assert [(call.name, json.loads(call.arguments)) for call in got.calls] == [(name, arguments)]
        assert got.content == ""


@pytest.mark.parametrize("text", TEXTS)
def test_what_only_looks_like_a_call_stays_text(text):
    for size in (0, 1, 5):
        got = read(hermes(), text, TOOLS, size=size)
        assert (got.content, got.calls) == (text, [])


def test_it_may_follow_thoughts_and_no_tools_means_no_calls():
    got = read(hermes(), f"<think>\nhm\n</think>\n\n```json\n{CALL}\n```", TOOLS, size=1)
    assert (got.reasoning, got.content, len(got.calls)) == ("hm", "", 1)
    assert read(hermes(), CALL, {}, size=1).content == CALL


def test_nothing_is_held_back_that_cannot_become_one():
    for begins, text in (("```", "python\n"), ("```json\n", "[1"), ("{", '"city"'), ('{"na', 'me" '[:2] + 's": 1')):
        reader = AnswerReader(hermes(), TOOLS)
        assert reader.feed(begins) == []
        assert reader.feed(text) == [Content(begins + text)]
        assert reader.feed("more") == [Content("more")]
    reader = AnswerReader(hermes(), TOOLS)
    assert reader.feed(CALL) == []
    assert isinstance(reader.finish()[0], Call)


@pytest.mark.parametrize(("text", "told"), [
    ('{"name": "weather", "arguments": {"city": "Os', '{"city": "Os'),
    ('```json\n{"name": "weather", "arguments": {"city"', '{"city"'),
    ('{"name": "weather"', ""),
    ('{"name": "wea', None), ('{"name": "nothing", "arguments": {"city"', None), ('{"nam', None),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_call_that_was_cut_off_stays_one_as_far_as_it_came(text, told, size):
    reader = AnswerReader(hermes(), TOOLS)
    events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
    got = collect(events + reader.finish(cut=True))
    assert [(call.name, call.arguments) for call in got.calls] == ([] if told is None else [("weather", told)])
    assert got.content == (text if told is None else "")
    whole = AnswerReader(hermes(), TOOLS)
    assert collect(whole.feed(text) + whole.finish()).content == text, "one that ends by itself is none"
