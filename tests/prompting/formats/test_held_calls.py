"""A call is held from what opens it on and told when it is whole; what stands around it comes as it is written."""

import json

import pytest

from omnidraft.prompting.formats.chat_format import Call, Content, Event, Thoughts, collect
from omnidraft.prompting.formats.reader import AnswerReader
from tests.prompting.formats.test_learned import CALL, TOOLS, WRITTEN, form


def each(calls: str, text: str) -> list[list[Event]]:
    """What every character of `text` brings."""
    reader = AnswerReader(form(calls), TOOLS)
    return [*map(reader.feed, text), reader.finish()]


@pytest.mark.parametrize("calls", WRITTEN)
def test_a_call_comes_at_once_when_it_is_whole(calls):
    came = each(calls, WRITTEN[calls])
    (at,) = [at for at, events in enumerate(came) if events]
    (call,) = came[at]
    assert isinstance(call, Call)
    assert (call.name, json.loads(call.arguments)) == (CALL[0].name, json.loads(CALL[0].arguments))
    assert at >= max(map(WRITTEN[calls].rfind, ("2", "}")))
    assert at < len(WRITTEN[calls]), "it does not wait for the answer's end"


@pytest.mark.parametrize("calls", WRITTEN)
def test_thoughts_before_and_text_around_calls_come_as_they_are_written(calls):
    thought, before, behind = "They ask about it", "Let me look", "That is all I know"
    text = f"<|muse|>{thought}<|/muse|>{before}\n{WRITTEN[calls]}{behind}"
    came = each(calls, text)
    read = collect([event for events in came for event in events])
    assert (read.reasoning, read.content.split("\n"), len(read.calls)) == (thought, [before, behind], 1)
    for said, kind in ((thought, Thoughts), (before, Content), (behind, Content)):
        for word in said.split()[:-1]:
            end = text.index(said) + said.index(word) + len(word) + 2  # when the next word has begun
            assert word in "".join(event.text for events in came[:end] for event in events if isinstance(event, kind))


@pytest.mark.parametrize("calls", WRITTEN)
def test_what_is_cut_off_is_a_call_as_far_as_it_came(calls):
    for end in range(WRITTEN[calls].index("a "), WRITTEN[calls].index("2")):
        reader = AnswerReader(form(calls), TOOLS)
        reader.feed(WRITTEN[calls][:end])
        (call,) = reader.finish(cut=True)
        assert not call.whole
        assert call.name == "look_up"
        assert '{"word": "a \\"b\\"", "count": 2}'.startswith(call.arguments)
