"""Which versions may be served: judged on old and new held-out answers."""

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.learning.training.evaluate import Estimate, judge


def scores(rate: float, tokens: int = 400, answers: int = 8) -> Estimate:
    hits = (np.arange(tokens) < rate * tokens).astype(float)
    return Estimate(hits, np.full(tokens, rate), np.arange(tokens) % answers)


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
    better = replace(scores(0.5), overlap=scores(0.5).overlap + 2 * gain + 2 * noise)
    empty = scores(0, 0)
    assert judge({"old": empty, "new": scores(0.5)}, {"old": empty, "new": better}).accepted == accepted


@pytest.mark.parametrize(("loop", "accepted"), [(0.0, True), (0.9, False)])
def test_a_loop_learned_by_heart_does_not_pay_for_the_other_answers(loop, accepted):
    """Of ten answers nine fall, and the tenth rises by more than they lose."""
    answer = np.repeat(np.arange(10), 40)
    others = -0.08 if loop else 0.05
    before = replace(scores(0.5), answer=answer)
    after = replace(before, overlap=before.overlap + 2 * np.where(answer == 0, loop, others))
    assert (after.combined - before.combined).mean() > 0
    verdict = judge({"old": before, "new": before}, {"old": after, "new": replace(after, answer=np.zeros(400, int))})
    assert verdict.accepted == accepted
    assert accepted or "fall on 9 old answers" in verdict.reason


@pytest.mark.parametrize(("change", "accepted"), [(-0.01, False), (0.01, True)])
def test_unseen_answers_do_not_make_up_for_a_fall_on_those_held_out(change, accepted):
    noise = np.resize([0.7, -0.7], 400)  # either change is within the noise
    other = replace(scores(0.5), overlap=scores(0.5).overlap + 2 * change + 2 * noise)
    before = {"old": scores(0.5), "unseen": scores(0.2)}
    verdict = judge(before, {"old": other, "unseen": scores(0.9)})
    assert verdict.accepted == accepted
    assert accepted or "held-out answers would fall" in verdict.reason


def test_a_fall_on_one_or_two_answers_takes_nothing_from_what_unseen_ones_prove():
    noise = np.resize([0.7, -0.7], 400)
    other = replace(scores(0.5, answers=2), overlap=scores(0.5).overlap - 0.02 + 2 * noise)
    before = {"old": scores(0.5, answers=2), "unseen": scores(0.2)}
    assert judge(before, {"old": other, "unseen": scores(0.9)}).accepted


@pytest.mark.parametrize(("new", "accepted"), [(0.06, True), (0.04, False)])
def test_one_or_two_answers_decide_by_whether_they_rise(new, accepted):
    before = scores(0.5, answers=1)
    verdict = judge(
        {"old": before, "new": before}, {"old": scores(0.45, answers=1), "new": scores(0.5 + new, answers=1)}
    )
    assert verdict.accepted == accepted
    assert not verdict.falls, "so few speak against nothing"


def test_too_little_to_judge_by_and_numbers_that_are_none_are_refused():
    assert not judge(
        {"old": scores(0.1, 0), "new": scores(0.1, 20)}, {"old": scores(1, 0), "new": scores(1, 20)}
    ).accepted
    broken = replace(scores(0), greedy=np.full(400, np.nan))
    verdict = judge({"old": scores(0.5), "new": scores(0.5)}, {"old": broken, "new": broken})
    assert not verdict.accepted
    assert verdict.ruined
