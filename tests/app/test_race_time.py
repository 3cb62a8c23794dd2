"""What a lesson takes is told before it begins, and one of ten minutes is offered first."""

from __future__ import annotations

import pytest

from omnidraft.app.race_time import FEWEST, SHORT, Times, step_seconds
from omnidraft.learning.update import Update


def times(answer: float, step: float = 0.5) -> Times:
    return Times(pairs=[2 * answer] * 8, answers=[answer] * 8, read=[200] * 8, step=step)


def test_one_that_is_short_is_offered_alone_and_one_of_few_answers_where_the_machine_is_slow():
    (whole,) = times(0.2, 0.05).offers(256, 0, 8)
    assert whole.prompts == 256
    short, _ = times(120.0).offers(256, 0, 8)
    assert short.prompts == FEWEST
    assert short.seconds > SHORT, "and it says that it takes longer"
    (few,) = times(120.0).offers(4, 0, 2)
    assert few.prompts == 4


def test_answers_that_are_given_take_no_time():
    before, after = (times(5.0).lesson(64, given, 8).needed for given in (0, 40))
    assert before["answers"] - after["answers"] == pytest.approx(200.0)
    assert before["training"] == after["training"]


def test_a_step_takes_what_past_updates_took_else_what_the_drafters_size_says():
    update = Update(1, 0.0, "drafter", "t", "v", step=40, steps=40, cpu_seconds=60.0, ended=1.0)
    other = Update(2, 0.0, "another", "t", "v", step=40, steps=40, cpu_seconds=600.0, ended=1.0)
    assert step_seconds([other, update], "drafter", 10**9, 2) == (0.75, True)
    seconds, measured = step_seconds([other], "drafter", 22_400_000, 1)
    assert (seconds, measured) == (pytest.approx(0.65), False)
