"""Answers made of channels: thoughts, what is said, calls wherever their recipient stands, and messages to others."""

import pytest

from omnidraft.prompting.formats.chat_format import Call
from tests.prompting.formats.test_bad_input import HARMONY
from tests.prompting.reading import format_of_source, read

TOOLS = {"now": {"type": "object", "properties": {"zone": {"type": "string"}}}}
GIVEN = '{"zone": "CET"}'
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"


@pytest.mark.parametrize("text", [
    f"<|channel|>commentary to=functions.now <|constrain|>json<|message|>{GIVEN}<|call|>",
    f"<|channel|>analysis to=functions.now code<|message|>{GIVEN}",
    f" to=functions.now<|channel|>commentary json<|message|>{GIVEN}<|call|>",
    f"<|channel|>commentary to=now<|message|>{GIVEN}<|end|>",
])  # fmt: skip
@pytest.mark.parametrize("size", [0, 1])
def test_a_call_is_read_wherever_its_recipient_stands(text, size):
    for lead, thought in (("", ""), (THOUGHT, "Hm.")):
        got = read(format_of_source(HARMONY), lead + text, TOOLS, size=size)
        assert (got.reasoning, got.content, got.calls) == (thought, "", [Call("now", GIVEN)])


@pytest.mark.parametrize(("text", "said"), [
    ("<|channel|>final<|message|>Hi.", "Hi."), ("<|channel|>final <|constrain|>json<|message|>{}", "{}"),
    ("<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then.", "First.Then."),
    ("<|channel|>commentary to=functions.other<|message|>{}<|call|>", "{}"), ("Plain.", "Plain."),
    (" to=browser.open<|channel|>commentary<|message|>a page<|call|><|channel|>final<|message|>Hi.", "Hi."),
])  # fmt: skip
@pytest.mark.parametrize("size", [0, 1])
def test_what_is_said_is_told_without_headers_and_without_what_others_are_told(text, said, size):
    got = read(format_of_source(HARMONY), THOUGHT + text, TOOLS, size=size)
    assert (got.reasoning, got.content, got.calls) == ("Hm.", said, [])
