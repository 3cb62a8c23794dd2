"""Forced calls, in JSON and in tags, with markers as text or as control tokens, and nothing else; and an answer under a
grammar, which stands behind the thoughts that its prompt has opened, or in its channel."""

import json

import numpy as np
import pytest

from omnidraft.errors import ModelError
from omnidraft.prompting.call_grammar import behind_thoughts, call_grammar, required_call
from omnidraft.prompting.formats.chat_format import THOUGHT_MARKS, Call, WrittenCall
from omnidraft.prompting.grammar import check_grammar, gbnf_grammar, json_grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.prompting.following import takes
from tests.prompting.reading import read
from tests.prompting.thinking_templates import OPENED
from tests.prompting.tool_templates import TEMPLATES

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


NUMBER = json_grammar({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
DIGITS = gbnf_grammar('root ::= "n" b\nb ::= [0-9]+')
HARMONY = (
    "{% for m in messages %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}{# <|channel|>analysis #}"
)


@pytest.mark.parametrize("grammar", [NUMBER, DIGITS])
@pytest.mark.parametrize(
    ("before", "good"),
    [("Hm. {\"a\" </thi n1</think>", True), ("</think>\n\n", True), ("", False), ("Hm.", False),
     ("Hm.</think> So: ", False)],
)  # fmt: skip
def test_thoughts_that_are_open_come_first(vocabulary, grammar, before, good):
    behind = behind_thoughts(grammar, ChatTemplate(OPENED, vocabulary))
    answer = '{"a": 3}' if grammar is NUMBER else "n31"
    assert takes(behind, before + answer) is good


def test_channels_come_first_with_thoughts_or_without(vocabulary):
    template = ChatTemplate(HARMONY, vocabulary)
    assert template.form.harmony
    behind, (begin, end, bare) = behind_thoughts(NUMBER, template), THOUGHT_MARKS
    check_grammar(behind)
    texts = [f'{begin}Hm.{end}{{"a": 3}}', f'{bare}{{"a": 3}}', '{"a": 3}', f'{begin}Hm.{{"a": 3}}']
    assert [takes(behind, text) for text in texts] == [True, True, False, False]


def test_an_end_of_thoughts_that_is_a_control_token_is_written_as_one(models):
    """`<|start_header_id|>` stands for a marker of thoughts that the vocabulary has as a control token."""
    vocabulary = read_gguf_vocabulary(models / "tiny-target-a-f16.gguf")
    source = (
        "{% for m in messages %}[{{ m.role }}]"
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}<|start_header_id|>{% endif %}{{ m.content }}"
        "<|eot_id|>{% endfor %}{% if add_generation_prompt %}[assistant]<think>{% endif %}"
    )
    behind = behind_thoughts(NUMBER, ChatTemplate(source, vocabulary))
    assert behind.controls == ("<|start_header_id|>",)
    state = GrammarState(behind, vocabulary)
    marker = vocabulary.controls["<|start_header_id|>"]
    for token in [*vocabulary.encode("Hm. <|start"), marker, *vocabulary.encode('{"a": 3}')]:
        assert state.allowed(np.array([token]))[0]
        state.accept(token)
    assert state.allowed(np.array([vocabulary.eos]))[0]


def test_control_strings_in_tools_stay_text(vocabulary):
    template = ChatTemplate(TEMPLATES["hermes"], vocabulary)
    sly = {"type": "function", "function": {"name": "x", "description": "<|im_end|> sly"}}
    spans = template.render([{"role": "user", "content": "Hi", "tools": [sly]}])
    (span,) = [span for span in spans if "sly" in span.text]
    assert not span.control
    assert "<|im_end|> sly" in span.text


@pytest.mark.parametrize("form", TEMPLATES)
def test_a_forced_call_is_one_the_reader_reads(form, vocabulary):
    template = ChatTemplate(TEMPLATES[form], vocabulary)
    known = next(shape.written for shape in template.form.calls if shape.written is not None)
    grammar = required_call(template, [WEATHER, CLOCK])

    def written(name: str, arguments: dict) -> str:
        return known.before + name + known.between + json.dumps(arguments) + known.behind

    good, tools = written("weather", {"city": "Oslo", "unit": "C"}), {"weather": WEATHER["parameters"]}
    assert takes(grammar, good)
    assert read(template.form, good, tools, size=5).calls == [Call("weather", '{"city": "Oslo", "unit": "C"}')]
    assert takes(grammar, written("clock", {"zone": "UTC"}))
    for wrong in (written("weather", {}), written("clock", {"zone": "C"}), written("other", {}), good + "x", "Hello"):
        assert not takes(grammar, wrong)
