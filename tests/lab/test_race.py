"""A race on the bundled pair: two lanes in turn, equal texts, and what the figures are made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnidraft.app.race_view import RacePlan
from omnidraft.decoding.events import Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.lab.experiment import Said, Turn
from omnidraft.lab.prompts import TOPICS, topic_prompts
from omnidraft.lab.race import PLAIN, race, score
from omnidraft.lab.statistics import Trace, record
from omnidraft.settings.config import AppSettings, DraftSettings, SamplingSettings
from tests.answering import loaded
from tests.lab.traces import trace
from tests.real import SMOL, real_model
from ui.drift.race import RACED


@pytest.fixture(scope="module", params=["a", pytest.param(SMOL, marks=pytest.mark.slow)])
def racing(request, tmp_path_factory, models):
    """A toy with its drafter, or a real model with its own."""
    drafter = models / ("smol-drafter-q5_0.gguf" if request.param == SMOL else "tiny-drafter-f16.gguf")
    target = real_model(SMOL) if request.param == SMOL else models / "tiny-target-a-f16.gguf"
    with loaded(tmp_path_factory.mktemp("racing"), target, drafter) as assistant:
        yield assistant, target, drafter


def test_both_lanes_answer_every_prompt_with_the_same_text(racing):
    sampling, draft = SamplingSettings(max_tokens=20), DraftSettings(mode="fixed", length=3)
    events = list(race(racing[0], topic_prompts("math", 2), sampling, draft))
    turns = [event for event in events if isinstance(event, Turn)]
    said = [event.event for event in events if isinstance(event, Said) and isinstance(event.event, Token)]
    assert len(said) == sum(len(trace.ids) for turn in turns for trace in turn.traces.values())
    plain = [turn.traces["plain"] for turn in turns]
    assert all(trace.passes == trace.tokens for trace in plain if not trace.degenerate), "no round drafts there"
    found = score(turns)
    assert found.same == found.answers == 2
    assert found.acceptance is not None
    assert found.copied == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("topic", TOPICS)
def test_no_sample_prompt_is_answered_in_a_loop(racing, topic):
    """As it is raced; drafted, the text is the same."""
    assistant, *files = racing
    prompts = topic_prompts(topic, RACED)
    drawn = RacePlan(*files, AppSettings(), prompts).sampling
    asked = (AnswerRequest(p.messages, replace(drawn, seed=n), PLAIN) for n, p in enumerate(prompts))
    found = [record(assistant.answer(one)) for one in asked]
    assert [prompt.text for prompt, trace in zip(prompts, found, strict=True) if trace.degenerate] == []


def turns(*pairs: tuple[Trace, Trace]) -> list[Turn]:
    """Of (plain, drafted)."""
    return [Turn(0, topic_prompts("math", 1)[0], {"plain": plain, "drafted": drafted}, {}) for plain, drafted in pairs]


def test_acceptance_is_the_drafters_alone_and_copied_tokens_are_counted_apart():
    drafted, copied = trace(1.0, 3, proposed=4, accepted=2), trace(1.0, 3, proposed=4, accepted=2, copied=4)
    found = score(turns((trace(3.0, 3), drafted), (trace(3.0, 3), copied)))
    assert found.acceptance == 0.5
    assert found.copied == 2
    assert found.speedup == pytest.approx(3.0)
    assert (found.plain_speed, found.drafted_speed) == (pytest.approx(1.0), pytest.approx(3.0))
    assert found.interval is None, "two answers say nothing about others"
    assert score([]) is None


def test_the_interval_of_a_speedup_is_that_of_its_prompts():
    def raced(*speedups: float) -> list[Turn]:
        return turns(*((trace(speedup), trace(1.0)) for speedup in speedups))

    assert score(raced(2.0, 2.0, 2.0)).interval == pytest.approx((2.0, 2.0))
    low, high = score(raced(1.0, 1.5, 2.0, 2.5, 3.0)).interval
    assert 1.2 < low < 1.7
    assert 2.3 < high < 2.8
