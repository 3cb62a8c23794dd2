"""Forced calls: in JSON and in tags, with markers as text or as control tokens, and nothing else."""

from __future__ import annotations

import pytest

from omnidraft.backends.prompting.call_grammar import call_grammar
from omnidraft.backends.prompting.formats.shapes import WrittenCall
from omnidraft.backends.prompting.grammar import check_grammar
from omnidraft.errors import GrammarError, ModelError
from tests.backends.prompting.following import takes

WEATHER = {"name": "weather", "parameters": {
    "type": "object", "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"$ref": "#/$defs/unit"}},
    "$defs": {"unit": {"enum": ["C", "F"]}}}}  # fmt: skip
CLOCK = {"name": "clock", "parameters": {"properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}}
JSON = WrittenCall('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>")
TAGS = WrittenCall("<call><function=", ">\n", "</function></call>", ("<parameter=", ">\n", "\n</parameter>\n"))


@pytest.mark.parametrize(("form", "text", "good"), [
    (JSON, '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "unit": "C"}}\n</tool_call>', True),
    (JSON, '<tool_call>\n{"name": "weather", "arguments": {"unit": "C"}}\n</tool_call>', False),
    (JSON, '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "unit": "K"}}\n</tool_call>', False),
    (JSON, '<tool_call>\n{"name": "clock", "arguments": {"zone": "UTC"}}\n</tool_call>', True),
    (JSON, '<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>', False),
    (JSON, "Hello", False),
    (TAGS, "<call><function=weather>\n<parameter=city>\nOslo \"<x>\"\n\n</parameter>\n</function></call>", True),
    (TAGS, "<call><function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
           "<parameter=unit>\n\"F\"\n</parameter>\n</function></call>", True),
    (TAGS, "<call><function=weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\nx\n</parameter>\n"
           "</function></call>", False),
    (TAGS, "<call><function=weather>\n<parameter=days>\n3\n</parameter>\n</function></call>", False),
    (TAGS, "<call><function=clock>\n<parameter=zone>\nCET\n</parameter>\n</function></call>", True),
    (TAGS, "<call><function=clock>\n<parameter=zone>\nXET\n</parameter>\n</function></call>", False),
])  # fmt: skip
def test_exactly_one_call_is_followed(form, text, good):
    assert takes(call_grammar(form, [WEATHER, CLOCK]), text) is good


def test_without_tools_there_is_nothing_to_force():
    with pytest.raises(ModelError, match="no tool"):
        call_grammar(JSON, [])


def test_a_schema_that_reaches_elsewhere_is_refused():
    with pytest.raises(GrammarError, match="cannot be turned into a grammar"):
        check_grammar(call_grammar(JSON, [{"name": "x", "parameters": {"$ref": "https://example.org/schema"}}]))
