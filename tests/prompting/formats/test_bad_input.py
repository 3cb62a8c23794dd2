"""What no template foresaw is shown as text: nothing is lost, and nothing hangs."""

import random
import time
from functools import cache

import pytest

from omnidraft.prompting.formats.chat_format import ChatFormat
from tests.prompting.formats.test_learned import JSON, NAMED, PYTHON, TAGS, TOOLS, WRITTEN, form
from tests.prompting.reading import format_of_source, read
from tests.prompting.tool_templates import HERMES

HARMONY = "{{ '<|start|><|channel|><|message|>' }}{{ messages[0].content }}"
CALLS = {"json": JSON, "named": NAMED, "tags": TAGS, "python": PYTHON}
SHAPES = (*CALLS, "harmony", "hermes")
MARKERS = [
    "<|muse|>", "<|/muse|>", "[DO]", "[/DO]", "<act:look_up>", "</act>", "<act look_up>", "<in word>", "</in>",
    "<|py|>",
    "look_up(", ")", "<tool_call>", "</tool_call>", '{"name": "look_up", "arguments": {"word": ', '{"do": "look_up",',
    "}", "{", '"', "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>", "<|start|>assistant",
    " to=functions.look_up", "<think>", "</think>", "\n", " ",
]  # fmt: skip


@cache
def shape_of(name: str) -> ChatFormat:
    return form(CALLS[name]) if name in CALLS else format_of_source({"harmony": HARMONY, "hermes": HERMES}[name])


def everything(reading) -> str:
    return "\n".join([reading.reasoning, reading.content, *(call.name + call.arguments for call in reading.calls)])


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "harmony"])
@pytest.mark.parametrize("size", [0, 3])
def test_no_word_is_lost_whatever_stands_around_it(shape, size):
    by = random.Random(shape)
    for _ in range(150):
        words = [f"word{n}x" for n in range(by.randint(1, 6))]
        text = "".join(by.choice(MARKERS) + word + by.choice(MARKERS) for word in words)
        shown = everything(read(shape_of(shape), text, TOOLS, size=size))
        assert [word for word in words if word not in shown] == [], text


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_that_is_never_closed_is_shown_or_called_but_not_lost(shape):
    begun = {"harmony": "<|channel|>commentary to=functions.look_up<|message|>", "named": "<act:look_up>",
             "tags": "<act look_up><in word>\n", "python": "<|py|>look_up(word=",
             "hermes": '<tool_call>{"name": "look_up", "arguments": '}  # fmt: skip
    text = begun.get(shape, '[DO]{"do": "look_up", "with": ') + '{"word": "lost?'
    for size in (0, 1):
        assert "lost?" in everything(read(shape_of(shape), text, TOOLS, size=size))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("closed", [True, False])
def test_a_megabyte_of_arguments_takes_seconds_in_small_pieces(shape, closed):
    long = "x{<\\n" * 200_000
    written = {
        "harmony": '<|channel|>commentary to=functions.look_up<|message|>{"word": "a \\"b\\""}<|call|>',
        "hermes": '<tool_call>{"name": "look_up", "arguments": {"word": "a "}}</tool_call>',
    }.get(shape) or WRITTEN[CALLS[shape]]
    text = written.replace("a ", long)
    text = text if closed else text[: text.index(long) + len(long)]
    begun = time.process_time()
    shown = everything(read(shape_of(shape), text, TOOLS, size=64))
    assert time.process_time() - begun < 10
    assert shown.count("x{<") == 200_000
