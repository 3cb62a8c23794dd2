"""Thoughts in front of an answer are told by what a model writes around them; a later turn gets them apart."""

from __future__ import annotations

import pytest

from omnidraft.backends.prompting.formats.open import THOUGHT_MARKS
from omnidraft.chats.search import in_tags, said

CHANNEL = ("<|channel>thought", "<channel|>", "")
PROMPTED = ("", "[BEGIN FINAL RESPONSE]", "")
BEGIN, END, BARE = THOUGHT_MARKS


@pytest.mark.parametrize(
    ("marks", "text", "shown", "thoughts", "read"),
    [
        (CHANNEL, "<|channel>thought\nHm.<channel|>Hello.", "<think>\nHm.</think>\n\nHello.", "Hm.", "Hello."),
        (CHANNEL, "<|channel>thought\nHm", "<think>\nHm", "Hm", ""),
        (CHANNEL, "Hello.", "Hello.", None, "Hello."),
        (CHANNEL, "Write <|channel>thought yourself.", "Write <|channel>thought yourself.", None, None),
        (PROMPTED, "Hm. [BEGIN FINAL RESPONSE] Hello.", "<think>Hm. </think>\n\nHello.", "Hm.", "Hello."),
        (PROMPTED, "Hm.", "<think>Hm.", "Hm.", ""),
        (THOUGHT_MARKS, f"{BEGIN}Hm.{END}Hello.", "<think>Hm.</think>\n\nHello.", "Hm.", "Hello."),
        (THOUGHT_MARKS, f"{BARE}Hello.", "Hello.", None, "Hello."),
        (THOUGHT_MARKS, "", "", None, ""),
    ],
)
def test_thoughts_are_shown_as_most_models_spell_them_and_go_back_apart(marks, text, shown, thoughts, read):
    assert in_tags(text, marks) == shown
    message = said(text, marks)
    assert message["content"] == (text if read is None else read)
    assert message.get("reasoning_content") == thoughts


def test_what_most_models_spell_needs_no_marks():
    assert said("<think>\nHm.\n</think>\n\nHello.") == {
        "role": "assistant", "content": "Hello.", "reasoning_content": "Hm."
    }  # fmt: skip
