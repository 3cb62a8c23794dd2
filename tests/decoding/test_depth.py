"""How far to draft, on simulated machines with exact times: close to the best fixed length, hardly ever slower than
plain decoding."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnidraft.decoding.acceptance import Average, copy_class
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.depth import AdaptiveDepth, PairStats, make_policy
from omnidraft.decoding.drafting import PLAIN, FixedLength
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.errors import SettingsError
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
def test_as_fast_as_the_best_fixed_length_and_never_slower_than_plain(passes, acceptance):
    adaptive = rate(passes, 0.05, acceptance).rate
    fixed = {k: rate(passes, 0.05, acceptance, FixedLength(k)).rate for k in (1, 2, 4, 8)}
    plain = 1 / passes[1]
    best = max(*fixed.values(), plain)
    print(f"adaptive {adaptive:.3f}, best fixed {max(fixed, key=fixed.get)}: {max(fixed.values()):.3f}, plain {plain}")
    assert adaptive >= 0.97 * best
    assert adaptive >= 0.985 * plain


def test_a_drafter_that_becomes_good_is_noticed():
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=1)
    stats = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(stats=stats), 2_000)
    assert not stats.expected
    better = Machine(MEMORY_BOUND, 0.05, EASY, seed=2)
    better.run(better.adaptive(stats=stats), 3_000)
    assert better.run(better.adaptive(stats=stats), 500).rate > 1.5


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
    stats = PairStats(bad.cost.copy())
    for _ in range(12):
        policy = bad.adaptive(stats=stats)
        assert bad.run(policy, 64).rate >= 0.97
        policy.finish()
    good = Machine(MEMORY_BOUND, 0.03, [0.85], seed=8)
    outcomes = []
    for _ in range(8):
        policy = good.adaptive(stats=stats)
        outcomes.append(good.run(policy, 12))
        policy.finish()
    assert sum(o.tokens for o in outcomes) / sum(o.seconds for o in outcomes) >= 1.15


def test_wrong_costs_at_the_start_are_corrected_by_real_rounds():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=3)
    wrong = PairStats(Machine({1: 1.0}, 0.5, EASY).cost)  # knows one width, and a step ten times too dear
    machine.run(machine.adaptive(stats=wrong), 6_000)
    best = max(rate(MEMORY_BOUND, 0.05, EASY, FixedLength(k)).rate for k in (4, 6, 8))
    assert machine.run(machine.adaptive(stats=wrong), 1_000).rate >= 0.9 * best


def test_translating_counts_as_drafting_and_not_as_a_part_of_the_pass():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=8, translating=0.05)
    stats = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(stats=stats), 2_000)
    assert stats.cost.step == pytest.approx(0.10, rel=0.05)
    for rows in (1, 4, 8):
        assert stats.cost.alone(rows) == pytest.approx(MEMORY_BOUND[rows], rel=0.05)


def test_what_going_back_to_one_row_takes_is_kept_apart_from_plain_rounds():
    """Copies of one token, two plain rounds behind each, the first of which takes longer."""
    stats = PairStats(CostModel(dict(MEMORY_BOUND), 0.05))
    policy = AdaptiveDepth(stats, None, longest=1)
    for _ in range(100):
        if policy.begin(1, Match([1], 20, own=True)) != 1:
            pytest.fail("the copy pays")
        policy.observe(Round(0, 1, 1, 1, 2, 0.0, 0.0, MEMORY_BOUND[2], 0.0, copied=1), [Proposal(1, "lookup", 1, 0)], 1)
        for seconds, plain in ((1.4, False), (1.0, True)):
            if not policy.rests:
                assert policy.begin(1, NO_MATCH) == PLAIN
            policy.observe(Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, plain=plain), [], 1)
    policy.finish()
    assert stats.cost.pass_seconds(1) == pytest.approx(1.0, abs=0.001)
    assert stats.cost.pass_seconds(2) == pytest.approx(MEMORY_BOUND[2] + 0.4, abs=0.01)
    assert stats.rate == pytest.approx(4 / (MEMORY_BOUND[2] + 2.4), rel=0.03)  # it took time all the same


def test_looks_past_a_step_of_the_staircase():
    """Three rows cost more than four here: stopping at two proposals would be the dearest choice."""
    stairs = {1: 1.0, 2: 1.9, 3: 3.1, 4: 1.95, 5: 2.0, 6: 2.05, 8: 2.1, 12: 2.3, 16: 2.5}
    machine = Machine(stairs, 0.02, EASY, seed=4)
    assert machine.run(machine.adaptive(), 2_000).rate > 1.8


def test_what_is_known_survives_storage():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=6)
    stats = PairStats(machine.cost.copy())
    machine.run(machine.adaptive(stats=stats), 500)
    again = PairStats.from_dict(stats.as_dict())
    assert again.as_dict() == stats.as_dict()
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


# what passes cost


def test_one_interrupted_pass_changes_little_and_a_few_are_forgotten():
    cost = CostModel({1: 1.0, 2: 1.2}, 0.1)
    cost.observe_pass(1, 50.0)
    assert cost.pass_seconds(1) <= 1.06
    cost.observe_pass(2, 50.0)
    assert cost.pass_seconds(2) <= 1.6
    for _ in range(40):
        cost.observe_pass(1, 1.0)
        cost.observe_pass(2, 1.2)
    assert cost.pass_seconds(1) == pytest.approx(1.0, rel=0.01)
    assert cost.pass_seconds(2) == pytest.approx(1.2, rel=0.03)


def test_survives_storage_and_refuses_nonsense():
    cost = CostModel({1: 1.0, 4: 2.0}, 0.1)
    cost.observe_pass(1, 1.4)
    again = CostModel.from_dict(cost.as_dict())
    assert again.pass_seconds(4) == pytest.approx(cost.pass_seconds(4))
    for passes in ({}, {2: 1.0}, {1: 0.0}, {1: float("nan")}):
        with pytest.raises(SettingsError):
            CostModel(passes, 0.1)


def test_what_a_wide_pass_costs_besides_itself_is_learned_from_the_passes_behind_it():
    cost = CostModel({1: 1.0, 4: 1.5}, 0.1)
    for _ in range(100):
        cost.observe_return(1.4)
    assert cost.pass_seconds(4) == pytest.approx(1.9, abs=0.02)
    assert cost.pass_seconds(1) == 1.0
    for _ in range(200):
        cost.observe_return(0.9)  # never below nothing
    assert cost.pass_seconds(4) == 1.5


def test_before_real_rounds_the_curve_never_falls_and_no_pass_costs_much_more_than_two_that_share_its_rows():
    cost = CostModel({1: 1.0, 2: 1.9, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83, 12: 30.0}, 0.1)
    curve = [cost.alone(n) for n in range(1, 20)]
    assert curve == sorted(curve)
    assert curve[2] == pytest.approx(2.93)
    assert curve[11] == pytest.approx(7.66)


@given(st.dictionaries(st.integers(2, 16), st.floats(0.5, 40.0), max_size=8), st.floats(0.5, 3.0), st.booleans())
@example({2: 1.9, 9: 1.4, 13: 4.6, 15: 5.2}, 2.4, True)  # a capped width behind interpolated ones
def test_no_table_of_a_load_makes_a_curve_that_falls(wider, one, plain):
    cost = CostModel({1: one, **wider}, 0.1)
    if plain:
        cost.observe_pass(1, cost.alone(1), 20)
    curve = [cost.alone(n) for n in range(1, 18)]
    assert curve == sorted(curve)


def test_widths_that_real_rounds_found_dearer_than_a_wider_one_are_believed():
    """A kernel takes eight rows at once and leftovers one by one."""
    cost = CostModel({1: 1.0, 4: 1.5, 6: 3.2, 8: 1.9}, 0.1)
    assert cost.pass_seconds(6) == pytest.approx(1.9)
    for _ in range(20):
        cost.observe_pass(1, 1.0)
        cost.observe_pass(6, 3.2)
    assert cost.pass_seconds(6) == pytest.approx(3.2, rel=0.1)
    assert cost.pass_seconds(8) == pytest.approx(1.9)


def test_each_number_of_threads_has_figures_of_its_own_and_begins_like_the_nearest():
    cost = CostModel({1: 1.0, 4: 2.0}, 0.1)
    cost.threads = 1
    assert cost.pass_seconds(4) == pytest.approx(2.0)
    cost.observe_pass(1, 0.5)
    for _ in range(100):
        cost.observe_pass(4, 1.8)
    assert cost.pass_seconds(4) == pytest.approx(1.8, rel=0.02)
    cost.threads = 0
    assert cost.passes == {1: 1.0, 4: 2.0}


def test_wide_passes_long_behind_a_plain_one_tell_of_a_slower_machine():
    cost = CostModel({1: 1.0, 4: 1.5}, 0.1)
    for _ in range(150):
        cost.observe_pass(4, 3.0)
    assert cost.pass_seconds(4) == pytest.approx(3.0, rel=0.02)
    assert cost.pass_seconds(1) > 1.2


def test_rounds_that_contradict_a_figure_replace_it_and_cast_doubt_on_those_never_used():
    cost = CostModel({1: 1.0, 3: 12.0, 5: 12.0, 8: 12.0}, 0.1)
    cost.observe_pass(1, 1.0, 20)
    cost.observe_pass(3, 1.1)
    assert cost.pass_seconds(3) == pytest.approx(1.1, rel=0.02)
    assert cost.pass_seconds(8) < 2.0
    cheap = CostModel({1: 1.0, 4: 1.1}, 0.1)
    for _ in range(40):
        cheap.observe_pass(1, 1.0)
        cheap.observe_pass(4, 2.5)
    assert cheap.pass_seconds(4) == pytest.approx(2.5, rel=0.1)


# copies of earlier text


DEAR = {1: 0.010, 2: 0.014, 3: 0.018, 5: 0.026, 9: 0.042}
PLAIN_ROUND = Round(0, 0, 0, 0, 1, 0.0, 0.0, 0.010, 0.0, plain=True)


def lookups(passes: dict[int, float] = DEAR) -> AdaptiveDepth:
    return AdaptiveDepth(PairStats(CostModel(dict(passes), step=0.002)), None, longest=8)


def found(length: int, own: bool = True, agreed: int = 0) -> Match:
    return Match([1] * 8, length, own, agreed)


def said(policy: AdaptiveDepth, match: Match, right: bool, rounds: int) -> None:
    """Rounds in which the passage is compared with what the target says, and not proposed."""
    for _ in range(rounds):
        policy.begin(0, match)
        policy.observe(PLAIN_ROUND, [], 1 if right else 2)


def value(policy: AdaptiveDepth, matched: int, own: bool = True, agreed: bool = False) -> float:
    return policy.stats.averages.copies[copy_class(matched, own, agreed, resumed=False)].value


def test_copies_are_proposed_once_they_were_seen_to_be_right_and_no_longer_than_that():
    policy = lookups()
    assert policy.begin(0, found(5)) == PLAIN
    said(policy, found(5), True, 8)
    assert policy.begin(0, found(5)) > 0
    assert policy.begin(0, found(2)) == PLAIN  # other lengths of match are another matter
    said(policy, found(5), False, 12)
    assert policy.begin(0, found(5)) == PLAIN


@pytest.mark.parametrize("other", [found(12, own=False), found(12, agreed=8)])
def test_an_answer_that_repeats_itself_says_nothing_about_other_passages(other):
    policy = lookups()
    said(policy, found(12), True, 30)
    said(policy, other, False, 12)
    assert policy.begin(0, found(12)) > 0
    assert policy.begin(0, other) == PLAIN


def test_an_unproposed_copy_is_compared_with_what_comes_in_every_kind_of_round():
    policy = lookups()
    for done in (PLAIN_ROUND, Round(0, 0, 0, 0, 1, 0.0, 0.0, 0.011, 0.0)):
        before = value(policy, 3)
        policy.begin(0, found(3))
        policy.observe(done, [], 1)
        assert value(policy, 3) > before


@pytest.mark.parametrize(("step", "copied"), [(0.0002, 0), (0.002, 1)])
def test_a_copy_is_weighed_against_what_a_draft_earns_when_its_steps_are_paid_for(step, copied):
    stats = PairStats(CostModel({1: 0.010, 2: 0.0101}, step))
    stats.averages.copies[copy_class(5, own=True, agreed=False, resumed=False)] = Average(0.35, 50.0)
    policy = AdaptiveDepth(stats, OneToOne(), longest=8)
    assert policy.begin(0, Match([1], 5, own=True)) == copied


def test_a_passage_that_is_not_worth_copying_does_not_end_a_rest():
    """Most words stood somewhere before; thinking about each would take longer than copies gain."""
    policy = lookups()
    assert policy.begin(0, NO_MATCH) == PLAIN
    for _ in range(3):
        assert policy.rests
        assert policy.begin(0, found(1)) == PLAIN
        policy.observe(PLAIN_ROUND, [], 2)
    assert policy.stats.tokens == 0, "plain rounds are told together"
    assert policy.begin(0, NO_MATCH) == PLAIN
    said(policy, found(20), right=True, rounds=9)
    policy.begin(0, NO_MATCH)
    assert policy.begin(0, found(20)) > 0, "what is worth copying is copied in mid-rest"


def test_the_next_answer_begins_where_the_pair_is():
    policy = lookups()
    said(policy, found(12), True, 30)
    following = AdaptiveDepth(policy.stats, None, longest=8)
    assert following.begin(0, found(12)) > 0


def test_copies_that_lose_by_the_clock_are_left_out_however_cheap_wide_passes_are_believed_to_be():
    policy, copied = lookups({1: 0.010, 9: 0.0105}), 0
    for _ in range(300):
        length = 0 if policy.rests else policy.begin(0, found(20))
        if length > 0:
            copied += 1
            slow = Round(0, length, 1, 0, 1, 0.0, 0.0, 0.040, 0.0, copied=length)
            policy.observe(slow, [Proposal(1, "lookup", 0, 0)] * length, 2)
        else:
            policy.observe(PLAIN_ROUND, [], 1)
    assert 0 < copied <= 25


@pytest.mark.parametrize("draft", [DraftSettings(mode="fixed", length=8), DraftSettings()])
def test_no_draft_is_longer_than_what_the_target_reads_in_one_pass(draft):
    stats = PairStats(CostModel({1: 1.0}, 0.1))
    assert make_policy(draft, stats, OneToOne(), 5).longest == 5
    assert make_policy(draft, stats, OneToOne(), 63).longest == (8 if draft.mode == "fixed" else 16)


def test_copies_go_on_for_as_long_as_they_were_seen_to_be_right_whatever_the_longest_draft():
    policy = AdaptiveDepth(PairStats(CostModel({1: 1.0, 41: 1.1}, 0.1)), None, longest=1)
    match, begun = Match([1] * 40, 20, own=False), []
    for _ in range(20):
        begun.append(policy.begin(0, match))
        n = max(begun[-1], 0)
        done = Round(0, n, n, n, n + 1, 0.0, 0.0, 1 + n / 400, 0.0, copied=n, plain=not n)
        policy.observe(done, [Proposal(1, "lookup", 0, 0)] * n, 1)
    assert 0 < begun[0] < max(begun) == 40


def test_what_is_copied_behind_a_change_is_believed_apart_from_what_agrees():
    policy = lookups()
    said(policy, found(12), True, 30)
    resumed = found(12)._replace(resumed=True)
    said(policy, resumed, False, 12)
    assert policy.begin(0, found(12)) > 0
    assert policy.begin(0, resumed) == PLAIN
