"""How far to draft, on simulated machines with exact times: close to the best fixed length, hardly ever slower than
plain decoding."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding.acceptance import Average, copy_class
from omnidraft.decoding.depth import AdaptiveDepth, make_policy
from omnidraft.decoding.drafting import PLAIN, FixedLength
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import NO_MATCH, Match
from omnidraft.decoding.pace import Pace
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


def test_where_nothing_pays_rounds_are_only_counted():
    """A look now and then apart, which comes ever more rarely."""
    machine = Machine(MEMORY_BOUND, 0.05, HOPELESS, seed=1)
    policy, begun = machine.adaptive(), []
    machine.run(policy, 500)
    begin = policy.begin
    policy.begin = lambda *given: begun.append(0) or begin(*given)
    outcome = machine.run(policy, 500)
    assert len(begun) <= 500 // 5
    assert outcome.rate >= 0.985


def test_a_look_too_dear_for_its_share_of_the_time_waits():
    """A draft step takes as long as a pass, reading what was missed a tenth of that for every token."""
    machine = Machine(MEMORY_BOUND, 1.0, [0.2], seed=1, catching_up=True)
    outcome = machine.answers(machine.pace.duplicate(), 20, 100)
    assert outcome.rate >= 0.97


def test_looks_that_are_worth_nothing_do_not_go_on_because_the_drafter_is_right():
    """It says what the target says, but rows are dear and so is its step: plain decoding is the best there is."""
    machine = Machine(COMPUTE_BOUND, 0.3, EASY, seed=1)
    assert machine.run(machine.adaptive(), 2_000).rate >= 0.985


def test_short_answers_the_drafter_is_good_at_gain_at_once_after_long_ones_it_is_bad_at():
    """Twelve answers of 64 tokens that it never guesses, then some of twelve that it mostly does."""
    bad = Machine(MEMORY_BOUND, 0.03, [0.02], seed=7)
    pace = bad.pace.duplicate()
    for _ in range(12):
        policy = bad.adaptive(pace=pace)
        assert bad.run(policy, 64).rate >= 0.97
        policy.finish()
    good = Machine(MEMORY_BOUND, 0.03, [0.85], seed=8)
    outcomes = []
    for _ in range(8):
        policy = good.adaptive(pace=pace)
        outcomes.append(good.run(policy, 12))
        policy.finish()
    assert sum(o.tokens for o in outcomes) / sum(o.seconds for o in outcomes) >= 1.15


def test_translating_counts_as_drafting_and_not_as_a_part_of_the_pass():
    machine = Machine(MEMORY_BOUND, 0.05, EASY, seed=8, translating=0.05)
    pace = machine.pace.duplicate()
    machine.run(machine.adaptive(pace=pace), 2_000)
    assert pace.step == pytest.approx(0.10, rel=0.05)
    for rows in (1, 4, 8):
        assert pace.passes.seconds(rows) == pytest.approx(MEMORY_BOUND[rows], rel=0.05)


def test_what_going_back_to_one_row_takes_is_kept_apart_from_plain_rounds():
    """Copies of one token, two plain rounds behind each, the first of which takes longer."""
    pace = Pace(dict(MEMORY_BOUND), 0.05)
    policy = AdaptiveDepth(pace, None, longest=1)
    for _ in range(100):
        if policy.begin(1, Match([1], 20, own=True)) != 1:
            pytest.fail("the copy pays")
        policy.observe(Round(0, 1, 1, 1, 2, 0.0, 0.0, MEMORY_BOUND[2], 0.0, copied=1), [Proposal(1, "lookup", 1, 0)], 1)
        for seconds, plain in ((1.4, False), (1.0, True)):
            if not policy.rests:
                assert policy.begin(1, NO_MATCH) == PLAIN
            policy.observe(Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, plain=plain), [], 1)
    policy.finish()
    assert pace.plain_seconds == pytest.approx(1.0, abs=0.001)
    assert pace.extra(2) == pytest.approx(MEMORY_BOUND[2] - 1.0 + 0.4, abs=0.01)
    assert pace.rate == pytest.approx(4 / (MEMORY_BOUND[2] + 2.4), rel=0.03)  # it took time all the same


def test_looks_past_a_step_of_the_staircase():
    """Three rows cost more than four here: stopping at two proposals would be the dearest choice."""
    stairs = {1: 1.0, 2: 1.9, 3: 3.1, 4: 1.95, 5: 2.0, 6: 2.05, 8: 2.1, 12: 2.3, 16: 2.5}
    machine = Machine(stairs, 0.02, EASY, seed=4)
    assert machine.run(machine.adaptive(), 2_000).rate > 1.8


def test_with_threads_of_their_own_passes_have_figures_of_their_own():
    policy = AdaptiveDepth(Pace({1: 1.0, 2: 1.5}, 0.1), None, longest=4)
    for threads, seconds in ((2, 3.0), (1, 1.0), (2, 3.0)):
        for _ in range(40):
            if not policy.rests:
                policy.begin(0, NO_MATCH)
            done = Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, threads=(threads, 2), plain=True)
            policy.observe(done, [], 1)
        policy.finish()
    pace = policy.pace
    assert pace.plain_seconds == pytest.approx(3.0, rel=0.1)
    pace.threads = 1
    assert pace.plain_seconds == pytest.approx(pace.least_seconds) == pytest.approx(1.0, rel=0.05)


# copies of earlier text


DEAR = {1: 0.010, 2: 0.014, 3: 0.018, 5: 0.026, 9: 0.042}
PLAIN_ROUND = Round(0, 0, 0, 0, 1, 0.0, 0.0, 0.010, 0.0, plain=True)


def lookups(passes: dict[int, float] = DEAR) -> AdaptiveDepth:
    return AdaptiveDepth(Pace(dict(passes), 0.002), None, longest=8)


def found(length: int, own: bool = True, agreed: int = 0) -> Match:
    return Match([1] * 8, length, own, agreed)


def said(policy: AdaptiveDepth, match: Match, right: bool, rounds: int) -> None:
    """Rounds in which the passage is compared with what the target says, and not proposed."""
    for _ in range(rounds):
        policy.begin(0, match)
        policy.observe(PLAIN_ROUND, [], 1 if right else 2)


def test_copies_are_proposed_once_they_were_seen_to_be_right_and_no_longer_than_that():
    policy = lookups()
    assert policy.begin(0, found(5)) == PLAIN
    said(policy, found(5), True, 8)
    assert policy.begin(0, found(5)) > 0
    assert policy.begin(0, found(2)) == PLAIN  # other lengths of match are another matter
    said(policy, found(5), False, 12)
    assert policy.begin(0, found(5)) == PLAIN


@pytest.mark.parametrize("other", [found(12, own=False), found(12, agreed=8), found(12)._replace(resumed=True)])
def test_an_answer_that_repeats_itself_says_nothing_about_other_passages(other):
    policy = lookups()
    said(policy, found(12), True, 30)
    said(policy, other, False, 12)
    assert policy.begin(0, found(12)) > 0
    assert policy.begin(0, other) == PLAIN


@pytest.mark.parametrize(("step", "copied"), [(0.0002, 0), (0.002, 1)])
def test_a_copy_is_weighed_against_what_a_draft_earns_when_its_steps_are_paid_for(step, copied):
    pace = Pace({1: 0.010, 2: 0.0101}, step)
    pace.averages.copies[copy_class(5, own=True, agreed=False, resumed=False)] = Average(0.35, 50.0)
    policy = AdaptiveDepth(pace, OneToOne(), longest=8)
    assert policy.begin(0, Match([1], 5, own=True)) == copied


def test_a_passage_that_is_not_worth_copying_does_not_end_a_rest():
    """Most words stood somewhere before; thinking about each would take longer than copies gain."""
    policy = lookups()
    assert policy.begin(0, NO_MATCH) == PLAIN
    for _ in range(3):
        assert policy.rests
        assert policy.begin(0, found(1)) == PLAIN
        policy.observe(PLAIN_ROUND, [], 2)
    assert not policy.pace.recent(), "plain rounds are told together"
    assert policy.begin(0, NO_MATCH) == PLAIN
    said(policy, found(20), right=True, rounds=9)
    policy.begin(0, NO_MATCH)
    assert policy.begin(0, found(20)) > 0, "what is worth copying is copied in mid-rest"


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
    pace = Pace({1: 1.0}, 0.1)
    assert make_policy(draft, pace, OneToOne(), 5).longest == 5
    assert make_policy(draft, pace, OneToOne(), 63).longest == (8 if draft.mode == "fixed" else 16)


def test_copies_go_on_for_as_long_as_they_were_seen_to_be_right_whatever_the_longest_draft():
    policy = AdaptiveDepth(Pace({1: 1.0, 41: 1.1}, 0.1), None, longest=1)
    match, begun = Match([1] * 40, 20, own=False), []
    for _ in range(20):
        begun.append(policy.begin(0, match))
        n = max(begun[-1], 0)
        done = Round(0, n, n, n, n + 1, 0.0, 0.0, 1 + n / 400, 0.0, copied=n, plain=not n)
        policy.observe(done, [Proposal(1, "lookup", 0, 0)] * n, 1)
    assert 0 < begun[0] < max(begun) == 40


def test_what_returning_to_single_rows_costs_is_paid_once():
    """Behind a wider pass one of a single row is dearer, so another wide one costs only its own rows."""
    pace = Pace({1: 1.0, 2: 1.1, 8: 1.7}, 0.1, 0.5)
    assert pace.extra(2) == pytest.approx(0.6)
    assert pace.extra(2, returning=False) == pytest.approx(0.1)
    policy = AdaptiveDepth(pace, OneToOne(), 8)

    def proposes() -> bool:
        policy.begin(1, NO_MATCH)
        policy.drew(np.log([0.3, 0.7]), 0)
        return policy.worthwhile([0])

    assert not proposes()
    policy.observe(Round(1, 1, 1, 1, 2, 0.1, 0.0, 1.1, 0.0), [Proposal(0, "direct", 1, 0)], 0)
    assert proposes()
