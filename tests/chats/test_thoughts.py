"""Thoughts that a model does not spell `<think>` are told from its answer by what it writes around them."""

from __future__ import annotations

import pytest

from omnidraft.backends.prompting.formats.harmony import THOUGHT_MARKS
from omnidraft.chats.thoughts import in_tags, without

CHANNEL = ("<|channel>thought", "<channel|>", "")
PROMPTED = ("", "[BEGIN FINAL RESPONSE]", "")
BEGIN, END, BARE = THOUGHT_MARKS


@pytest.mark.parametrize(
    ("marks", "text", "shown", "read"),
    [
        (CHANNEL, "<|channel>thought\nHm.<channel|>Hello.", "<think>\nHm.</think>\n\nHello.", "Hello."),
        (CHANNEL, "<|channel>thought\nHm", "<think>\nHm", ""),
        (CHANNEL, "Hello.", "Hello.", "Hello."),
        (CHANNEL, "Write <|channel>thought yourself.", "Write <|channel>thought yourself.", None),
        (PROMPTED, "Hm. [BEGIN FINAL RESPONSE] Hello.", "<think>Hm. </think>\n\nHello.", " Hello."),
        (PROMPTED, "Hm.", "<think>Hm.", ""),
        (THOUGHT_MARKS, f"{BEGIN}Hm.{END}Hello.", "<think>Hm.</think>\n\nHello.", "Hello."),
        (THOUGHT_MARKS, f"{BARE}Hello.", "Hello.", "Hello."),
        (THOUGHT_MARKS, "", "", ""),
    ],
)
def test_thoughts_are_shown_as_most_models_spell_them_and_later_turns_read_the_answer_alone(marks, text, shown, read):
    assert in_tags(text, marks) == shown
    assert without(text, marks) == (text if read is None else read)
