"""The number of threads follows what passes take, whatever the machine does beside, and costs next to nothing."""

import random
from collections.abc import Callable, Mapping

import pytest

from omnidraft.processes import threads
from omnidraft.processes.threads import ThreadChoice

SILENT = {1: 1.4, 2: 1.0, 3: 0.8, 4: 0.7, 7: 0.55, 8: 0.5}  # seconds of a pass by its threads
BUSY = {1: 1.4, 2: 8.8, 3: 8.8, 4: 8.8, 7: 8.8, 8: 8.8}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how many processors others leave."""
    found = [2.0]
    monkeypatch.setattr(threads.Contention, "left_since", lambda _: found[0])
    return lambda count: found.__setitem__(0, count)


def run(choice: ThreadChoice, machine: Mapping[int, float], passes: int, noise: float = 0.03, seed: int = 0) -> float:
    """Seconds per pass of rounds of one to five rows."""
    draw = random.Random(seed)
    taken = expected = 0.0
    for _ in range(passes):
        rows = draw.randint(1, 5)
        seconds = machine[choice.count] * (1 + 0.2 * rows) * draw.uniform(1 - noise, 1 + noise)
        taken, expected = taken + seconds, expected + 1 + 0.2 * rows
        choice.passed(rows, seconds)
    return taken / expected


def test_a_silent_machine_is_used_wholly_and_trials_cost_a_hundredth(left):
    assert run(ThreadChoice(2), SILENT, 400) < 1.015 * SILENT[2]


def test_fewer_threads_within_a_few_passes_when_others_take_the_cores(left):
    choice = ThreadChoice(2)
    run(choice, SILENT, 300)
    left(1.0)
    run(choice, BUSY, 10)
    assert choice.count == 1
    assert run(choice, BUSY, 400) < 1.02 * BUSY[1]


def test_all_threads_again_soon_after_the_load_ends(left):
    choice = ThreadChoice(2)
    left(1.0)
    run(choice, BUSY, 1_000)
    left(2.0)
    run(choice, SILENT, 40)
    assert choice.count == 2


def test_one_busy_core_of_eight_costs_one_thread(left):
    left(7.0)
    choice = ThreadChoice(8)
    machine = {**SILENT, 8: 6.0}
    run(choice, machine, 100)
    assert choice.count == 7
    assert run(choice, machine, 400) < 1.05 * SILENT[7]


def test_a_number_that_was_set_is_kept(left):
    choice = ThreadChoice(2, least=2)
    run(choice, BUSY, 100)
    assert choice.count == 2


def test_steps_of_drafts_behind_passes_of_another_model_are_no_stall(left):
    """Of a draft the first step reads its weights from memory, later ones from the caches."""
    choice, draw = ThreadChoice(2), random.Random(0)
    fewer = passes = 0
    for _ in range(400):
        for step in range(draw.randint(1, 6)):
            fewer, passes = fewer + (choice.count < 2), passes + 1
            seconds = SILENT[choice.count] * draw.uniform(0.9, 1.1) * (1 if step else draw.uniform(3, 5))
            choice.passed((1, step == 0), seconds)
    assert fewer < 0.05 * passes
