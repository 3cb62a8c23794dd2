"""A race on the bundled pair: two lanes in turn, equal texts, and what the figures are made of."""

from __future__ import annotations

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.app.race_view import RacePlan
from omnidraft.decoding.events import Finished, Round, Statistics, Token
from omnidraft.lab.prompts import TOPICS, topic_prompts
from omnidraft.lab.race import Began, Paired, Said, race, score
from omnidraft.lab.statistics import Trace, record
from omnidraft.settings.config import AppSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from tests.answering import loaded
from tests.real import SMOL, real_model
from ui.drift.race import RACED

FIXED = DraftSettings(mode="fixed", length=3)
SAMPLING = SamplingSettings(max_tokens=20)


@pytest.fixture(scope="module")
def assistant(tmp_path_factory, models):
    loaded = Assistant(DataHome(tmp_path_factory.mktemp("home")), ephemeral=True)
    loaded.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ModelSettings(threads=1))
    yield loaded
    loaded.close()


def test_both_lanes_answer_every_prompt_with_the_same_text_and_take_turns(assistant):
    prompts = topic_prompts("math", 2)
    events = list(race(assistant, prompts, SAMPLING, FIXED))
    assert [(e.number, e.lane) for e in events if isinstance(e, Began)] == [
        (0, "plain"), (0, "drafted"), (1, "drafted"), (1, "plain"),
    ]  # fmt: skip
    pairs = [e for e in events if isinstance(e, Paired)]
    said = [e.event for e in events if isinstance(e, Said) and isinstance(e.event, Token)]
    assert len(said) == sum(len(p.plain.ids) + len(p.drafted.ids) for p in pairs)
    found = score(pairs)
    assert found.same == found.answers == 2
    assert all(len(p.plain.rounds) == p.plain.tokens for p in pairs if not p.plain.degenerate), "no round drafts there"
    assert found.acceptance is not None
    assert found.copied == 0


def test_a_cancelled_race_ends_without_a_pair_for_the_prompt_it_was_at(assistant):
    seen = []
    for event in race(assistant, topic_prompts("math", 3), SAMPLING, FIXED, lambda: len(seen) > 5):
        seen.append(event)
    assert sum(isinstance(e, Began) for e in seen) == 1
    assert not any(isinstance(e, Paired) for e in seen)


def answer(ids: list[int], seconds: float, copied: int = 0) -> Trace:
    tokens = [Token(i, b"", "", "target", at) for at, i in enumerate(ids)]
    done = Round(0, 4, 4, 2, len(ids), 0.0, 0.0, seconds, 0.0, copied)
    return record([*tokens, done, Finished("stop", Statistics())])


def test_acceptance_is_the_drafters_alone_and_copied_tokens_are_counted_apart():
    pairs = [
        Paired(answer([1, 2, 3], 3.0), answer([1, 2, 3], 1.0)),
        Paired(answer([1, 2, 3], 3.0), answer([1, 2, 3], 1.0, copied=4)),
    ]
    found = score(pairs)
    assert found.acceptance == 0.5
    assert found.copied == 2
    assert found.speedup == pytest.approx(3.0)
    assert (found.plain_speed, found.drafted_speed) == (pytest.approx(1.0), pytest.approx(3.0))
    assert found.interval is None, "two answers say nothing about others"
    assert score([]) is None


def test_the_interval_of_a_speedup_is_that_of_its_prompts():
    def pairs(*speedups: float) -> list[Paired]:
        return [Paired(answer([1, 2], s), answer([1, 2], 1.0)) for s in speedups]

    assert score(pairs(2.0, 2.0, 2.0)).interval == pytest.approx((2.0, 2.0))
    low, high = score(pairs(1.0, 1.5, 2.0, 2.5, 3.0)).interval
    assert 1.2 < low < 1.7
    assert 2.3 < high < 2.8


@pytest.fixture(scope="module", params=["a", "a2", "b", pytest.param(SMOL, marks=pytest.mark.slow)])
def racing(request, tmp_path_factory, models):
    """A toy with its drafter, or a real model with its own."""
    drafter = models / ("smol-drafter-q8_0.gguf" if request.param == SMOL else "tiny-drafter-f16.gguf")
    target = real_model(SMOL) if request.param == SMOL else models / f"tiny-target-{request.param}-f16.gguf"
    with loaded(tmp_path_factory.mktemp("racing"), target, drafter) as assistant:
        yield assistant, target, drafter


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("topic", TOPICS)
def test_no_sample_prompt_is_answered_in_a_loop(racing, topic):
    """As they are raced."""
    assistant, *files = racing
    prompts = topic_prompts(topic, RACED)
    plan = RacePlan(*files, AppSettings(), prompts)
    pairs = [e for e in race(assistant, prompts, plan.sampling, plan.draft) if isinstance(e, Paired)]
    assert [pair.same for pair in pairs] == [True] * RACED
    assert [prompt.text for prompt, pair in zip(prompts, pairs, strict=True) if pair.plain.degenerate] == []
