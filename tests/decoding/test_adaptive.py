"""The length policy on simulated machines: close to the best fixed length, never slower than plain, few probes."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.exploration import _OPENING, _PATIENCE
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import PLAIN, FixedLength
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.vocab import Proposal
from tests.decoding.simulation import COMPUTE_BOUND, MEMORY_BOUND, Machine

TOKENS = 4_000
EASY, MIXED, HARD, HOPELESS = [0.9], [0.9, 0.3], [0.4], [0.0]


def rate(passes, step, acceptance, policy=None):
    machine = Machine(passes, step, acceptance, seed=5)
    return machine.run(policy or machine.adaptive(), TOKENS)


@pytest.mark.parametrize("passes", [MEMORY_BOUND, COMPUTE_BOUND], ids=["memory-bound", "compute-bound"])
@pytest.mark.parametrize("acceptance", [EASY, MIXED, HARD, HOPELESS], ids=["easy", "mixed", "hard", "hopeless"])
@pytest.mark.parametrize("step", [0.05, 0.3])
def test_as_fast_as_the_best_fixed_length_and_never_slower_than_plain(passes, acceptance, step):
    adaptive = rate(passes, step, acceptance).rate
    fixed = {k: rate(passes, step, acceptance, FixedLength(k)).rate for k in (1, 2, 3, 4, 6, 8)}
    plain = 1 / passes[1]
    best = max(*fixed.values(), plain)
    print(f"adaptive {adaptive:.3f}, best fixed {max(fixed, key=fixed.get)}: {max(fixed.values()):.3f}, plain {plain}")
    assert adaptive >= 0.97 * best
    assert adaptive >= 0.985 * plain


def test_with_a_useless_drafter_drafting_takes_about_a_hundredth_of_the_time():
    outcome = rate(MEMORY_BOUND, 0.1, HOPELESS)
    assert outcome.draft_seconds <= 0.012 * outcome.seconds + 16 * 0.1 * 3


def test_a_drafter_that_becomes_good_is_noticed():
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=1)
    knowledge = Knowledge(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 2_000)
    assert not knowledge.drafting
    better = Machine(MEMORY_BOUND, 0.05, EASY, seed=2)
    better.run(better.adaptive(knowledge=knowledge), 3_000)
    assert better.run(better.adaptive(knowledge=knowledge), 500).rate > 1.5


def test_drafting_resumes_within_the_answer_in_which_the_drafter_became_good():
    hopeless, easy = (Machine(MEMORY_BOUND, 0.05, acceptance, seed=3) for acceptance in (HOPELESS, EASY))
    policy = hopeless.adaptive()
    hopeless.run(policy, 1_000)
    assert not policy.knowledge.drafting
    easy.run(policy, 200)
    assert policy.knowledge.drafting
    assert easy.run(policy, 1_000).rate > 1.3


@pytest.mark.parametrize("seed", range(4))
def test_a_round_in_which_no_look_is_due_is_plain_without_another_thought(seed):
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=seed)
    policy = machine.adaptive()
    machine.run(policy, 1_000)
    begin, looked, thought_over, needless, restarts = policy.begin, [], [], [], []

    def count(*given):
        guard, looks = policy.knowledge.guard, policy._exploration
        if policy._tokens >= looks.due:
            looked.append(policy._tokens)
            restarts.extend([policy._tokens] * (looks._failed == 0))
        elif not policy._thought:
            thought_over.append(policy._tokens)
        elif not (guard.due or guard.stretch):
            needless.append(policy._tokens)
        return begin(*given)

    with patch.object(policy, "begin", count):
        machine.run(policy, 200)
    assert not needless
    assert len(thought_over) <= len(looked) + 1  # what a look showed is thought over once; one was before
    # Looks are 2^5 tokens apart, but for four in a row and ever rarer ones behind a lucky guess.
    assert 200 // 2**_PATIENCE <= len(looked) <= 200 // 2**_PATIENCE + 1 + len(restarts) * (_OPENING + _PATIENCE)
    assert len(restarts) <= 1


def test_wrong_costs_at_the_start_are_corrected_by_real_rounds():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=3)
    wrong = Knowledge(Machine({1: 1.0}, 0.5, EASY).cost)  # knows one width, and a step ten times too dear
    machine.run(machine.adaptive(knowledge=wrong), 6_000)
    best = max(rate(MEMORY_BOUND, 0.05, EASY, FixedLength(k)).rate for k in (4, 6, 8))
    assert machine.run(machine.adaptive(knowledge=wrong), 1_000).rate >= 0.9 * best


def test_translating_counts_as_drafting_and_not_as_a_part_of_the_pass():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=8, translating=0.05)
    knowledge = Knowledge(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 2_000)
    assert knowledge.cost.step == pytest.approx(0.10, rel=0.05)
    for rows in (1, 4, 8):
        assert knowledge.cost.alone(rows) == pytest.approx(MEMORY_BOUND[rows], rel=0.05)


def test_what_going_back_to_one_row_takes_is_kept_apart_from_plain_rounds():
    """Copies of one token, two plain rounds behind each, the first of which takes longer."""
    knowledge = Knowledge(CostModel(dict(MEMORY_BOUND), 0.05))
    policy = AdaptiveLength(knowledge, None, longest=1)
    for _ in range(100):
        assert policy.begin(1, Match([1], 8, own=True)) == 1
        policy.observe(Round(0, 1, 1, 1, 2, 0.0, 0.0, MEMORY_BOUND[2], 0.0), [Proposal(0, "lookup", 1, 0)])
        for seconds in (1.4, 1.0):
            assert policy.begin(1, NO_MATCH) == PLAIN
            policy.observe(Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0), [])
    policy.finish()
    assert knowledge.cost.pass_seconds(1) == pytest.approx(1.0, abs=0.001)
    assert knowledge.cost.pass_seconds(2) == pytest.approx(MEMORY_BOUND[2] + 0.4, abs=0.01)
    assert knowledge.rate == pytest.approx(4 / (MEMORY_BOUND[2] + 2.4), rel=0.01)  # it took time all the same


def test_looks_past_a_step_of_the_staircase():
    """Three rows cost more than four here: stopping at two proposals would be the dearest choice."""
    stairs = {1: 1.0, 2: 1.9, 3: 3.1, 4: 1.95, 5: 2.0, 6: 2.05, 8: 2.1, 12: 2.3, 16: 2.5}
    machine = Machine(stairs, 0.02, EASY, seed=4)
    assert machine.run(machine.adaptive(), 2_000).rate > 1.8


def test_knowledge_survives_storage():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=6)
    knowledge = Knowledge(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 500)
    again = Knowledge.from_dict(knowledge.as_dict())
    assert again.as_dict() == knowledge.as_dict()
    with pytest.raises((KeyError, ValueError, TypeError)):
        Knowledge.from_dict({"cost": {}})
