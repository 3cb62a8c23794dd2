"""Which versions may be served: judged on old and new held-out answers."""

from dataclasses import replace

import numpy as np
import pytest

from omnidraft.learning.training.evaluate import Estimate, judge


def scores(rate: float, tokens: int = 400, answers: int = 8) -> Estimate:
    hits = (np.arange(tokens) < rate * tokens).astype(float)
    return Estimate(hits, np.full(tokens, rate), np.arange(tokens) * answers // max(tokens, 1))


def noise(between: float, tokens: int = 400, answers: int = 8) -> np.ndarray:
    """Of tokens, and of every other answer by so much."""
    of_answers = np.repeat(np.resize([between, -between], answers), tokens // answers)
    return np.resize([0.7, -0.7], tokens) + of_answers


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
    better = replace(scores(0.5), overlap=scores(0.5).overlap + 2 * gain + 2 * noise(0.1))  # standard error: 0.038
    empty = scores(0, 0)
    assert judge({"old": empty, "new": scores(0.5)}, {"old": empty, "new": better}).accepted == accepted


@pytest.mark.parametrize(("heart", "accepted"), [((0.0,), True), ((0.9,), False), ((0.9, 0.9, 0.9), False)])
def test_some_answers_learned_by_heart_do_not_pay_for_the_others(heart, accepted):
    """Of ten answers most fall, and the others rise by more than they lose."""
    others = -0.08 if any(heart) else 0.05
    change = np.repeat([*heart, *[others] * (10 - len(heart))], 40)
    before = replace(scores(0.5), answer=np.repeat(np.arange(10), 40))
    after = replace(before, overlap=before.overlap + 2 * change)
    assert (after.combined - before.combined).mean() > 0
    assert judge({"old": before}, {"old": after}).accepted == accepted


@pytest.mark.parametrize(("change", "accepted"), [(-0.01, False), (0.01, True)])
def test_unseen_answers_do_not_make_up_for_a_fall_on_those_held_out(change, accepted):
    other = replace(scores(0.5), overlap=scores(0.5).overlap + 2 * change + 2 * noise(0.05))  # either is within it
    before = {"old": scores(0.5), "unseen": scores(0.2)}
    verdict = judge(before, {"old": other, "unseen": scores(0.9)})
    assert verdict.accepted == accepted
    assert accepted or "held-out answers would fall" in verdict.reason


def test_a_fall_on_one_or_two_answers_takes_nothing_from_what_unseen_ones_prove():
    other = replace(scores(0.5, answers=2), overlap=scores(0.5).overlap - 0.02 + 2 * noise(0))
    before = {"old": scores(0.5, answers=2), "unseen": scores(0.2)}
    assert judge(before, {"old": other, "unseen": scores(0.9)}).accepted


@pytest.mark.parametrize(("changes", "accepted"), [
    ((0.2,), False), ((0.2, 0.01), True), ((0.2, -0.01), False), ((0.2, 0.1, -0.01), True), ((0.2, 0.0, -0.1), False),
])  # fmt: skip
def test_answers_are_counted_and_not_their_tokens(changes, accepted):
    """One says nothing, however many tokens it has; of two both must rise, of more their mean beyond their error."""
    answer = np.repeat(np.arange(len(changes)), 400)
    before = replace(scores(0.5, tokens=len(answer)), answer=answer)
    after = replace(before, overlap=before.overlap + 2 * np.repeat(changes, 400))
    verdict = judge({"new": before}, {"new": after})
    assert verdict.accepted == accepted
    assert not verdict.falls, "so few speak against nothing"


def test_too_little_to_judge_by_and_numbers_that_are_none_are_refused():
    assert not judge(
        {"old": scores(0.1, 0), "new": scores(0.1, 0)}, {"old": scores(1, 0), "new": scores(1, 0)}
    ).accepted
    broken = replace(scores(0), greedy=np.full(400, np.nan))
    verdict = judge({"old": scores(0.5), "new": scores(0.5)}, {"old": broken, "new": broken})
    assert not verdict.accepted
    assert verdict.ruined
