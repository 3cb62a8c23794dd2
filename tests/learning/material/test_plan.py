"""Which answers an update learns from and which it is judged by."""

from __future__ import annotations

from omnidraft.learning.material.plan import make_plan
from omnidraft.learning.material.replay import Answer


def test_what_is_judged_as_new_was_not_seen_by_the_update_before():
    answers = {o: Answer("c", "t", "v", None, 9, 9, 0.0, o - 1) for o in range(1, 33)}
    plan = make_plan(answers, {"v"}, 24, 0)
    assert min(plan.judged_new) > 24
    assert set(plan.judged_new) | set(plan.judged_old) == {o for o, a in answers.items() if a.held_out}
