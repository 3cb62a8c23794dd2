"""Prompts in several ways, in turns; what is cut is asked again; a loaded pair answers alike in all its ways."""

from __future__ import annotations

from collections import Counter

import pytest

from omnidraft.decoding.events import Finished, Statistics, Token
from omnidraft.errors import SettingsError
from omnidraft.lab.experiment import Began, Interrupted, Pair, Said, Turn, answers, draft_settings, experiment
from omnidraft.lab.prompts import topic_prompts
from omnidraft.settings.config import ModelSettings

PROMPTS = topic_prompts("math", 6)


def ask(way, number, prompt):
    yield Token(number, b"", "", "target", 0)
    yield Finished("stop", Statistics())


def test_every_way_answers_every_prompt_and_is_first_equally_often():
    events = list(experiment("abc", PROMPTS, ask))
    begun = [(event.number, event.way) for event in events if isinstance(event, Began)]
    assert [number for number, _ in begun] == [number for number in range(6) for _ in "abc"]
    assert Counter(way for _, way in begun[::3]) == {"a": 2, "b": 2, "c": 2}
    turns = [event for event in events if isinstance(event, Turn)]
    assert [turn.prompt for turn in turns] == PROMPTS
    assert all(turn.traces.keys() == turn.took.keys() == {*"abc"} for turn in turns)
    assert sum(isinstance(event, Said) for event in events) == 6 * 3 * 2


def test_an_answer_that_is_cut_makes_no_turn_and_its_prompt_is_asked_again_in_all_ways():
    cuts = iter([False, False, True])  # the first answer is whole, the second one cut
    events = list(experiment("ab", PROMPTS[:1], ask, lambda: next(cuts, False)))
    told = [event.way if isinstance(event, Began) else type(event) for event in events if not isinstance(event, Said)]
    assert told == ["a", "b", Interrupted, "a", "b", Turn]


@pytest.mark.parametrize("method", ["fixed", "fixed:x", "fixed:0", "gamma:0.3", "fastest"])
def test_an_unknown_method_is_refused(method):
    with pytest.raises(SettingsError):
        draft_settings(method)


def test_a_pair_says_the_same_in_every_way(home, models):
    files = models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"
    with Pair(home, *files, ModelSettings(threads=1)) as pair:
        found = answers(pair.answer, ("plain", "fixed:2", "adaptive"), PROMPTS[:2], "default", 7, 16)
        assert pair.found is not pair.pace, "real rounds of the adaptive way are said, not only what the load measured"
    plain, fixed, adaptive = ([trace.ids for trace in found[way]] for way in found)
    assert plain == fixed == adaptive
    assert plain[0] != plain[1]
    assert all(trace.proposed for trace in found["fixed:2"])
