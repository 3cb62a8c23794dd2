"""The length policy on simulated machines: close to the best fixed length, never slower than plain, few probes."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding.depth import AdaptiveDepth, CostModel, PairStats, make_policy
from omnidraft.decoding.drafting import PLAIN, FixedLength
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.settings.config import DraftSettings
from omnidraft.vocab import Proposal
from tests.decoding.simulation import COMPUTE_BOUND, MEMORY_BOUND, Machine, OneToOne

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


def test_a_drafter_that_becomes_good_is_noticed():
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=1)
    knowledge = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 2_000)
    assert not knowledge.expected
    better = Machine(MEMORY_BOUND, 0.05, EASY, seed=2)
    better.run(better.adaptive(knowledge=knowledge), 3_000)
    assert better.run(better.adaptive(knowledge=knowledge), 500).rate > 1.5


def test_where_nothing_pays_rounds_are_only_counted():
    """A look now and then apart, which comes ever more rarely."""
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=1)
    policy, begun = machine.adaptive(), []
    machine.run(policy, 500)
    begin = policy.begin
    policy.begin = lambda *given: begun.append(0) or begin(*given)
    outcome = machine.run(policy, 500)
    assert len(begun) <= 500 // 8 + 20
    assert outcome.rate >= 0.985


def test_a_look_too_dear_for_its_share_of_the_time_waits():
    """A draft step takes as long as a pass, reading what was missed a tenth of that for every token."""
    machine = Machine(MEMORY_BOUND, 1.0, [0.2], seed=1, catching_up=True)
    outcome = machine.answers(PairStats(machine.cost.copy()), 20, 100)
    assert outcome.rate >= 0.97


def test_looks_that_are_worth_nothing_do_not_go_on_because_the_drafter_is_right():
    """It says what the target says, but rows are dear and so is its step: plain decoding is the best there is."""
    machine = Machine(COMPUTE_BOUND, 0.3, EASY, seed=1)
    assert machine.run(machine.adaptive(), 2_000).rate >= 0.985


def test_short_answers_the_drafter_is_good_at_gain_at_once_after_long_ones_it_is_bad_at():
    """Twelve answers of 64 tokens that it never guesses, then some of twelve that it mostly does."""
    bad = Machine(MEMORY_BOUND, 0.03, [0.02], seed=7)
    knowledge = PairStats(bad.cost.copy())
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


def test_wrong_costs_at_the_start_are_corrected_by_real_rounds():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=3)
    wrong = PairStats(Machine({1: 1.0}, 0.5, EASY).cost)  # knows one width, and a step ten times too dear
    machine.run(machine.adaptive(knowledge=wrong), 6_000)
    best = max(rate(MEMORY_BOUND, 0.05, EASY, FixedLength(k)).rate for k in (4, 6, 8))
    assert machine.run(machine.adaptive(knowledge=wrong), 1_000).rate >= 0.9 * best


def test_translating_counts_as_drafting_and_not_as_a_part_of_the_pass():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=8, translating=0.05)
    knowledge = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 2_000)
    assert knowledge.cost.step == pytest.approx(0.10, rel=0.05)
    for rows in (1, 4, 8):
        assert knowledge.cost.alone(rows) == pytest.approx(MEMORY_BOUND[rows], rel=0.05)


def test_what_going_back_to_one_row_takes_is_kept_apart_from_plain_rounds():
    """Copies of one token, two plain rounds behind each, the first of which takes longer."""
    knowledge = PairStats(CostModel(dict(MEMORY_BOUND), 0.05))
    policy = AdaptiveDepth(knowledge, None, longest=1)
    for _ in range(100):
        if policy.begin(1, Match([1], 20, own=True)) != 1:
            pytest.fail("the copy pays")
        policy.observe(Round(0, 1, 1, 1, 2, 0.0, 0.0, MEMORY_BOUND[2], 0.0, copied=1), [Proposal(1, "lookup", 1, 0)], 1)
        for seconds, plain in ((1.4, False), (1.0, True)):
            if not policy.rests:
                assert policy.begin(1, NO_MATCH) == PLAIN
            policy.observe(Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, plain=plain), [], 1)
    policy.finish()
    assert knowledge.cost.pass_seconds(1) == pytest.approx(1.0, abs=0.001)
    assert knowledge.cost.pass_seconds(2) == pytest.approx(MEMORY_BOUND[2] + 0.4, abs=0.01)
    assert knowledge.rate == pytest.approx(4 / (MEMORY_BOUND[2] + 2.4), rel=0.03)  # it took time all the same


def test_looks_past_a_step_of_the_staircase():
    """Three rows cost more than four here: stopping at two proposals would be the dearest choice."""
    stairs = {1: 1.0, 2: 1.9, 3: 3.1, 4: 1.95, 5: 2.0, 6: 2.05, 8: 2.1, 12: 2.3, 16: 2.5}
    machine = Machine(stairs, 0.02, EASY, seed=4)
    assert machine.run(machine.adaptive(), 2_000).rate > 1.8


def test_knowledge_survives_storage():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=6)
    knowledge = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(knowledge=knowledge), 500)
    again = PairStats.from_dict(knowledge.as_dict())
    assert again.as_dict() == knowledge.as_dict()
    with pytest.raises((KeyError, ValueError, TypeError)):
        PairStats.from_dict({"cost": {}})


def test_with_threads_of_their_own_passes_have_figures_of_their_own():
    policy = AdaptiveDepth(PairStats(CostModel({1: 1.0, 2: 1.5}, 0.1)), None, longest=4)
    for threads, seconds in ((2, 3.0), (1, 1.0), (2, 3.0)):
        for _ in range(40):
            if not policy.rests:
                policy.begin(0, NO_MATCH)
            done = Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, threads=(threads, 2), plain=True)
            policy.observe(done, [], 1)
        policy.finish()
    cost = policy.stats.cost
    assert cost.pass_seconds(1) == pytest.approx(3.0, rel=0.1)
    cost.threads = 1
    assert cost.pass_seconds(1) == pytest.approx(1.0, rel=0.05)


def carried(policy, knowledge: PairStats) -> None:
    """Rounds of rejection sampling that carry pieces of the round before, and draw none."""
    row = np.log(np.array([0.6, 0.3, 0.1], np.float32))
    assert policy.begin(1, NO_MATCH) == 0
    while policy.more(pieces := [0] * len(policy._drafted._pieces)):
        policy.drew(row, 0)
    made = [Proposal(0, "direct", 1, i) for i in range(len(pieces))]
    policy.observe(Round(len(pieces), len(pieces), 1, 0, 1, 0.1, 0.0, 1.2, 0.0), made, 1)
    policy.begin(1, NO_MATCH, carried=2)
    before = knowledge.head.weights.copy()
    policy.observe(Round(0, 2, 2, 2, 3, 0.0, 0.0, 1.2, 0.0), made[:2], 0)
    assert (knowledge.head.weights == before).all()  # nothing is known of pieces of another round


def test_rounds_that_carry_pieces_and_draw_none_are_told_apart():
    knowledge = PairStats(CostModel(dict(MEMORY_BOUND), 0.05))
    carried(make_policy(DraftSettings(), knowledge, OneToOne()), knowledge)
    assert knowledge.cost.step <= 0.1
