"""Which answers an update learns from and which it is judged by."""

from __future__ import annotations

from omnidraft.learning.material.replay import Answer, select_answers


def test_what_is_judged_as_new_was_not_seen_by_the_update_before():
    answers = {o: Answer("c", "t", "v", None, 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = select_answers(answers, {"v"}, 24, 0, 64)
    assert min(plan.judged_new) > 24
    assert set(plan.judged_new) | set(plan.judged_old) == {o for o, a in answers.items() if a.held_out}


def test_the_oldest_new_answers_come_first_and_the_rest_wait():
    answers = {o: Answer("c", "t", "v", None, 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = select_answers(answers, {"v"}, 0, 0, 10)
    kept = [o for o, a in answers.items() if not a.held_out]
    assert plan.new == tuple(kept[:10])
    assert plan.through == kept[10] - 1
    assert select_answers(answers, {"v"}, 0, 0, 512).new == tuple(kept)
    assert select_answers(answers, {"v"}, kept[3], 0, 512).new == tuple(kept[4:])
