"""`bench first-session`: what is asked, and what counts as learned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.bench.first_session import Lived, Session, report, run
from omnidraft.bench.plans import FirstSession
from omnidraft.bench.report import json_lines, text
from omnidraft.bench.runner import Cells, Work
from omnidraft.lab.topics import TOPICS, own_prompts, topic_prompts
from omnidraft.learning.facts import Update
from omnidraft.storage.paths import DataHome
from tests.lab.traces import trace


@pytest.fixture
def plan(models):
    target, drafter = str(models / "tiny-target-b-f16.gguf"), str(models / "tiny-drafter-f16.gguf")
    return FirstSession(drafter, threads=1, target=target, prompts=2, after=2)


def made(plan, folder, told=lambda _line: None):
    return list(run(plan, Work(DataHome(folder), Cells(folder), told)))


def test_a_short_session_is_lived_and_reported_as_one_object(plan, tmp_path):
    told = []
    (found,) = made(plan, tmp_path, told.append)
    (line,) = json_lines(found)
    values = json.loads(line)
    assert [one["number"] for one in values["each"]] == [0, 1, 2, 3]
    assert values["answers"] == {"untrained": 2, "learned": 2}
    assert len(told) == 4
    assert values["same_text"] == 4, "one thread and short answers: no near-tie parts them"
    for name in ("untrained", "learned", "learned_with_copies"):
        low, high = values["intervals"][name]
        assert 0 < low <= values[name] <= high
    assert values["version"] == ""
    assert values["updates"] == []
    assert any(line.startswith("learned with copies") for line in text(found))


def lived(number: int, version: str, drafted: float, default: float, accepted: int, tokens: int = 20) -> Lived:
    traces = {"plain": trace(1.0, tokens), "drafted": trace(drafted, tokens, 10, accepted)}
    traces["default"] = trace(default, tokens, 10, accepted)
    return Lived(number, version, traces, same=True)


def test_untrained_is_what_the_bare_drafter_served_and_learned_what_came_behind(plan):
    session = Session(
        [lived(0, "", 1.0, 0.5, 1), lived(1, "v000001", 0.1, 0.1, 9), lived(2, "v000001", 0.5, 0.4, 6, tokens=120)],
        [Update(1, 0.0, "d", "t", "v", "published", cpu_seconds=4.0), Update(2, 0.0, "d", "t", "v", cpu_seconds=2.5)],
    )
    found = report(replace(plan, prompts=2, after=1), Path("t"), Path("d"), session).values
    assert (found["untrained"], found["learned"], found["learned_with_copies"]) == (1.0, 2.0, 2.5)
    assert found["acceptance"] == {"untrained": 0.1, "learned": 0.6}
    assert found["update_cpu_seconds"] == 6.5
    assert found["lowest_long_answer"] == 2.5
    assert found["version"] == "v000001"


def test_every_topic_asks_enough_different_questions():
    for topic in TOPICS:
        texts = [prompt.text for prompt in topic_prompts(topic)]
        assert len(texts) == len(set(texts)) >= FirstSession.prompts + FirstSession.after
    assert [p.text for p in own_prompts("one\n\n two  words\none\n")] == ["one", "two words"]
