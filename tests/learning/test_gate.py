"""Which versions may be served: judged on old and new held-out answers, and on how the served one fares."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from omnidraft.config import LearningSettings
from omnidraft.learning.adapters.serving import Choice, Shelf
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta
from omnidraft.learning.due import Due
from omnidraft.learning.facts import ServedAnswer
from omnidraft.learning.live import LIVE_ANSWERS, has_fallen
from omnidraft.learning.material.history import History
from omnidraft.learning.material.plan import make_plan
from omnidraft.learning.material.replay import Answer
from omnidraft.learning.training.gate import Scores, judge

RNG = np.random.default_rng(0)


def scores(rate: float, tokens: int = 400) -> Scores:
    hits = (np.arange(tokens) < rate * tokens).astype(float)
    return Scores(hits, np.full(tokens, rate))


@pytest.mark.parametrize(("old", "new", "accepted", "word"), [
    (0.1, 0.1, True, "rises"), (0.0, 0.1, True, "rises"), (-0.1, 0.3, False, "old"), (0.1, -0.1, False, "new"),
    (0.0, 0.0, False, "did not rise"),
])  # fmt: skip
def test_a_version_may_lower_neither_old_nor_new_answers_and_must_gain(old, new, accepted, word):
    verdict = judge({"old": scores(0.5), "new": scores(0.5)}, {"old": scores(0.5 + old), "new": scores(0.5 + new)})
    assert verdict.accepted == accepted
    assert word in verdict.reason


@pytest.mark.parametrize(("gain", "accepted"), [(0.02, False), (0.1, True)])
def test_a_gain_that_chance_explains_is_none(gain, accepted):
    noise = np.resize([0.7, -0.7], 400)  # its mean has a standard error of 0.035
    better = Scores(scores(0.5).greedy, scores(0.5).overlap + 2 * gain + 2 * noise)
    empty = scores(0, 0)
    assert judge({"old": empty, "new": scores(0.5)}, {"old": empty, "new": better}).accepted == accepted


def test_what_is_judged_as_new_was_not_seen_by_the_update_before():
    answers = {o: Answer("c", "t", "v", None, 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = make_plan(answers, {"v"}, 24, 0)
    assert min(plan.judged_new) > 24
    assert set(plan.judged_new) | set(plan.judged_old) == {o for o, a in answers.items() if a.held_out}


def test_too_little_to_judge_by_and_numbers_that_are_none_are_refused():
    assert not judge(
        {"old": scores(0.1, 0), "new": scores(0.1, 20)}, {"old": scores(1, 0), "new": scores(1, 20)}
    ).accepted
    broken = Scores(np.full(400, np.nan), np.full(400, np.nan))
    verdict = judge({"old": scores(0.5), "new": scores(0.5)}, {"old": broken, "new": broken})
    assert not verdict.accepted
    assert verdict.ruined


def test_a_served_version_that_accepts_less_is_looked_at_once(tmp_path):
    store = AdapterStore(tmp_path / "adapters" / "d" / "v")
    versions = [store.publish({ADAPTER: b"a", WEIGHTS: b"w"}, Meta("d", "v", parent=p)) for p in (None, "v000001")]
    shelf, history = Shelf(tmp_path / "adapters", tmp_path / "merged"), History(tmp_path / "metrics.sqlite")
    choice = Choice(tmp_path / "drafter.gguf", "own", store, versions[1], versions[1].adapter)

    def served(version: str, accepted: int, count: int) -> None:
        for i in range(count):
            history.add_served("d/v", ServedAnswer(0.0, version, "t", 50, 30, 40, 20, accepted + i % 2, 1.0))

    looked: set[tuple] = set()
    served("v000001", 12, 60)
    served("v000002", 9, LIVE_ANSWERS - 1)
    assert not has_fallen(choice, shelf, history, looked)  # too early to say
    served("v000002", 9, 1)
    assert has_fallen(choice, shelf, history, looked)
    assert not has_fallen(choice, shelf, history, looked)  # not again for the same answers
    served("v000002", 14, LIVE_ANSWERS)
    assert not has_fallen(choice, shelf, history, looked)  # now it does better
    history.close()


def test_what_one_pairs_answers_call_for_is_not_done_for_the_next_pair(monkeypatch, tmp_path):
    due = Due(SimpleNamespace(refused="", enough=0))
    choice = Choice(tmp_path / "drafter.gguf", "own", AdapterStore(tmp_path))
    pairing = SimpleNamespace(choice=choice)
    monkeypatch.setattr("omnidraft.learning.due.has_fallen", lambda *_: True)
    due._keeping.history = None
    due.look_at(pairing, None)
    assert due.kind(pairing, LearningSettings()) == "compare"
    assert due.kind(SimpleNamespace(choice=replace(choice, origin="warm start")), LearningSettings()) is None
    due.paired()
    assert due.kind(pairing, LearningSettings()) is None
