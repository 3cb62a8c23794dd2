"""Looks in spite of plain decoding: how often, out of which budget, and what they find in time."""

from __future__ import annotations

import pytest

from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.exploration import Exploration, worth_exploring
from omnidraft.decoding.knowledge import Knowledge
from tests.decoding.simulation import COMPUTE_BOUND, MEMORY_BOUND, Machine

FLAT = {1: 1.0, 2: 1.02, 4: 1.06, 8: 1.15}


def explored(knowledge: Knowledge, look: float, tokens: int) -> list[int]:
    """Where an answer of `tokens` has looks that all promise nothing, each `look` seconds long."""
    exploration = Exploration(knowledge)
    found = []
    for made in range(tokens):
        if exploration.affords(look, made):
            found.append(made)
            exploration.looked(made, promising=False)
            exploration.spend(look)
        exploration.save(knowledge.cost.pass_seconds(1))
    return found


def test_the_share_follows_what_a_good_drafter_could_save():
    shares = [worth_exploring(CostModel(passes, 0.05)) for passes in (FLAT, MEMORY_BOUND, COMPUTE_BOUND)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2 * shares[2]
    assert worth_exploring(CostModel(COMPUTE_BOUND, 5.0)) == pytest.approx(0.005)  # never nothing
    assert worth_exploring(CostModel(FLAT, 1e-4)) <= 0.05


def test_an_answer_opens_with_looks_and_then_has_them_ever_more_rarely():
    knowledge = Knowledge(CostModel(dict(MEMORY_BOUND), 0.01))
    assert explored(knowledge, 0.01, 80) == [0, 1, 2, 3, 5, 9, 17, 33, 65]


def test_looks_stay_within_their_share_however_dear_they_are():
    knowledge = Knowledge(CostModel(dict(MEMORY_BOUND), 0.1))
    share = worth_exploring(knowledge.cost)
    answers = [len(explored(knowledge, 0.5, 60)) for _ in range(50)]
    assert sum(answers) * 0.5 <= share * (50 * 60 + knowledge.usual.value) + 0.5
    assert sum(answers) > 0


def test_a_look_dearer_than_a_usual_answer_pays_for_waits_until_the_savings_are_full():
    """Prices in plain tokens: a usual answer has 64, the savings are full at 500."""
    knowledge = Knowledge(CostModel(dict(MEMORY_BOUND), 0.1))
    share = worth_exploring(knowledge.cost)
    exploration = Exploration(knowledge)
    assert exploration.affords(60 * share, 0)
    exploration.save(480.0)
    assert not exploration.affords(70 * share, 0)
    exploration.save(20.0)
    assert exploration.affords(70 * share, 0)


def test_being_right_earns_further_looks():
    wrong, right = (Knowledge(CostModel(dict(MEMORY_BOUND), 0.05)) for _ in range(2))
    for knowledge in (wrong, right):
        knowledge.plain_seconds = -100.0
        exploration = Exploration(knowledge)
        exploration.looked(0, promising=False)
        if knowledge is right:
            for made in range(1, 60):
                exploration.hit(1, made)
            assert exploration.affords(0.05, 60)
        else:
            assert not exploration.affords(0.05, 60)


def test_short_answers_the_drafter_is_good_at_gain_at_once_after_long_ones_it_is_bad_at():
    """Twelve answers of 64 tokens that it never guesses, then some of twelve that it mostly does."""
    bad = Machine(MEMORY_BOUND, 0.03, [0.02], seed=7)
    knowledge = Knowledge(bad.cost.copy())
    for _ in range(12):
        policy = bad.adaptive(knowledge=knowledge)
        assert bad.run(policy, 64).rate >= 0.97
        policy.finish()
    good = Machine(MEMORY_BOUND, 0.03, [0.85], seed=8)
    outcomes = []
    for _ in range(8):
        policy = good.adaptive(knowledge=knowledge)
        outcomes.append(good.run(policy, 12))
        policy.finish()
    assert sum(o.tokens for o in outcomes) / sum(o.seconds for o in outcomes) >= 1.15
