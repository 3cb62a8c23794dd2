"""Calls of tools: read from text however it is cut, rendered in each family's format, forced by a grammar."""

from __future__ import annotations

import json

import pytest

from omnidraft.backends.prompting.formats.events import Call, Content
from omnidraft.backends.prompting.formats.of_template import format_of_source
from omnidraft.backends.prompting.formats.open import open_reader, schemas
from omnidraft.backends.prompting.formats.open import read as read_answer
from omnidraft.backends.prompting.grammar import required_call
from omnidraft.backends.prompting.templates import ChatTemplate
from tests.backends.prompting.following import takes, text
from tests.backends.tool_templates import TEMPLATES

WEATHER = {"name": "weather", "description": "Tells the weather.", "parameters": {
    "type": "object", "required": ["city"],
    "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"$ref": "#/$defs/unit"}},
    "$defs": {"unit": {"enum": ["C", "F"]}}}}  # fmt: skip
CLOCK = {"name": "clock", "parameters": {
    "type": "object", "properties": {"unit": {"$ref": "#/$defs/unit"}},
    "$defs": {"unit": {"enum": ["h", "m"]}}}}  # fmt: skip
TOOLS = [{"type": "function", "function": function} for function in (WEATHER, CLOCK)]
OSLO, NOW = Call("weather", '{"city": "Oslo"}'), Call("clock", "{}")
HERMES, LLAMA, MISTRAL = FORMS = ("hermes", "llama", "mistral")


def read(form: str, text: str, step: int) -> list[str | Call]:
    """What is made of `text` fed `step` characters at a time: what is said, then the calls."""
    found = read_answer(format_of_source(TEMPLATES[form]), text, schemas(TOOLS), size=step)
    return [*([found.content] if found.content else []), *found.calls]


CASES = [
    (HERMES, '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>', [OSLO]),
    (HERMES, 'Let me see.\n\n<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>\n'
             '<tool_call>{"name": "clock", "arguments": {}}</tool_call>\n', ["Let me see.\n\n", OSLO, NOW]),
    (HERMES, '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}', [OSLO]),
    (HERMES, '<tool_call>{"name": "clock", "arguments": "{}"}</tool_call>', [NOW]),
    (HERMES, "a <b> < c", ["a <b> < c"]),
    (HERMES, '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
     ['<tool_call>{"name": "other", "arguments": {}}</tool_call>']),
    (HERMES, "<tool_call>{broken</tool_call> and on", ["<tool_call>{broken</tool_call> and on"]),
    (LLAMA, ' {"name": "weather", "parameters": {"city": "Oslo"}}', [OSLO]),
    (LLAMA, '{"name": "clock", "parameters": {}}; {"name": "weather", "parameters": {"city": "Oslo"}}', [NOW, OSLO]),
    (LLAMA, 'Say {"name": "clock", "parameters": {}}', ['Say {"name": "clock", "parameters": {}}']),
    (LLAMA, '{"a": 1} is JSON', ['{"a": 1} is JSON']),
    (LLAMA, '{"name": ["clock"], "parameters": {}}', ['{"name": ["clock"], "parameters": {}}']),
    (MISTRAL, '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Oslo"}}, {"name": "clock", "arguments": {}}]',
     [OSLO, NOW]),
    (MISTRAL, '[TOOL_CALLS]weather{"city": "Oslo"}[TOOL', ["[TOOL", OSLO]),
    (MISTRAL, '[TOOL_CALLS]weather[ARGS]{"city": "Oslo"}', [OSLO]),
    (MISTRAL, "An [TOO] odd text", ["An [TOO] odd text"]),
]  # fmt: skip


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
@pytest.mark.parametrize(("form", "text", "expected"), CASES)
def test_calls_are_parted_from_text_however_it_arrives(form, text, expected, step):
    assert read(form, text, step) == expected


def test_text_that_cannot_become_a_call_is_not_held_back():
    reader = open_reader(format_of_source(TEMPLATES[HERMES]), {"weather": {}})
    assert reader.feed("It is warm") == [Content("It is warm")]
    assert reader.feed(" <t") == [Content(" ")]
    assert reader.feed("> now") == [Content("<t> now")]


@pytest.mark.parametrize("name", FORMS)
def test_a_template_tells_its_format_and_writes_tools_calls_and_results(name, vocabulary):
    template = ChatTemplate(TEMPLATES[name], vocabulary)
    assert template.supports_tools
    assert template.form.learned
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    asked = {"role": "user", "content": "How warm is it <|im_end|>?", "tools": TOOLS}
    first = text(template, [asked])
    assert "Tells the weather." in first
    later = [{"role": "user", "content": "How warm?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "abcdefghi", "content": "21 degrees", "tools": TOOLS}]  # fmt: skip
    written = text(template, later)
    assert '{"city": "Oslo"}' in written
    assert written.index("weather") < written.index("21 degrees")


def test_control_strings_in_tools_stay_text(vocabulary):
    template = ChatTemplate(TEMPLATES["hermes"], vocabulary)
    sly = {"type": "function", "function": {"name": "x", "description": "<|im_end|> sly"}}
    spans = template.render([{"role": "user", "content": "Hi", "tools": [sly]}])
    (span,) = [span for span in spans if "sly" in span.text]
    assert not span.control
    assert "<|im_end|> sly" in span.text


@pytest.mark.parametrize("form", FORMS)
def test_a_forced_call_is_one_the_reader_reads(form, vocabulary):
    template = ChatTemplate(TEMPLATES[form], vocabulary)
    known = next(shape.written for shape in template.form.calls if shape.written is not None)
    grammar = required_call(template, [WEATHER, CLOCK])

    def written(name: str, arguments: dict) -> str:
        return known.before + name + known.between + json.dumps(arguments) + known.behind

    good = written("weather", {"city": "Oslo", "unit": "C"})
    assert takes(grammar, good)
    assert read(form, good, 5) == [Call("weather", '{"city": "Oslo", "unit": "C"}')]
    assert takes(grammar, written("clock", {"unit": "h"}))
    for wrong in (written("weather", {}), written("clock", {"unit": "C"}), written("other", {}), good + "x", "Hello"):
        assert not takes(grammar, wrong)
