"""Measured speed has the last word, whatever was measured or stored before: on simulated machines with a clock."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from statistics import fmean

import pytest

from omnidraft.decoding.against_plain import Backoff, PlainComparison
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.depth import PairStats
from omnidraft.decoding.drafting import FixedLength
from tests.decoding.simulation import COMPUTE_BOUND, FLAT, MEMORY_BOUND, Machine

ROW, STEP = 0.014, 0.002
FIRST_HOME = CostModel({1: 0.180}, STEP)  # one stalled figure and no other width
SECOND_HOME = CostModel({1: 0.038, 3: 0.014, 5: 0.015}, STEP)
STALLED_WIDE = CostModel({1: ROW, 2: 12 * ROW, 3: 12 * ROW, 5: 12 * ROW}, STEP)
HOPEFUL = CostModel({n: ROW * c for n, c in FLAT.items()}, STEP)  # what a machine is believed to be that is not


def machine(shape: dict[int, float], acceptance: float, *, step: float = STEP, seed: int = 1, **about) -> Machine:
    passes = {n: ROW * c for n, c in shape.items()}
    return Machine(passes, step, [acceptance], seed, catching_up=True, **about)


def plain_rate(of: Machine, tokens: int) -> float:
    return of.run(FixedLength(0), tokens).rate


def best_fixed(make, answers: int = 10) -> float:
    return max(make().answers(k, answers, 150).rate for k in (2, 3, 4, 6))


def tokens_until(of: Machine, stats: PairStats, wanted, most: int) -> int:
    """Tokens made, in answers of 150, before what is known is as `wanted`; `most` if it never is."""
    made = 0
    while made < most:
        policy = of.adaptive(stats=stats)
        for _ in range(15):
            made += of.run(policy, 10).tokens
            if wanted(stats):
                return made
        policy.finish()
    return most


def ended(known: PairStats) -> bool:
    """By the clock, or by estimates that have seen reason."""
    state = known.against_plain.draft.state
    return not known.against_plain.wanted and (state == "off" or (state == "on" and not known.expected))


def drafts(known: PairStats) -> bool:
    return known.against_plain.draft.state == "on"


def off() -> dict:
    return {"comparison": PlainComparison(plain=True)}


# homes whose stored costs were measured while the machine was busy


@pytest.mark.parametrize("known", [FIRST_HOME, SECOND_HOME, STALLED_WIDE], ids=["first", "second", "wide"])
def test_wrong_costs_do_not_keep_a_good_drafter_from_drafting(known):
    home = machine(FLAT, 0.6, known=known)
    stats = PairStats(known.copy())
    home.answers(stats, 2, 150)
    assert home.answers(stats, 10, 150).rate >= 0.95 * best_fixed(lambda: machine(FLAT, 0.6))


@pytest.mark.parametrize("known", [FIRST_HOME, SECOND_HOME, HOPEFUL], ids=["first", "second", "hopeful"])
@pytest.mark.parametrize(("shape", "acceptance"), [(COMPUTE_BOUND, 0.2), (COMPUTE_BOUND, 0.5), (MEMORY_BOUND, 0.1)])
def test_wrong_costs_do_not_make_a_losing_drafter_draft(known, shape, acceptance):
    home = machine(shape, acceptance, known=known)
    stats = PairStats(known.copy())
    plain = plain_rate(machine(shape, acceptance), 1000)
    assert home.answers(stats, 2, 150).rate >= 0.88 * plain
    assert home.answers(stats, 18, 150).rate >= 0.97 * plain


# in both directions, within about 200 tokens


@pytest.mark.parametrize("seed", range(4))
def test_drafting_that_loses_a_fifth_is_ended_within_200_tokens(seed):
    """Steep passes believed to be flat: about 0.8 of plain speed."""
    home = machine(MEMORY_BOUND, 0.25, step=0.3 * ROW, seed=seed)
    assert 0.7 <= home.run(FixedLength(1), 1000).rate * ROW <= 0.9
    stats = PairStats(HOPEFUL.copy())
    assert tokens_until(home, stats, ended, 400) <= 200


@pytest.mark.parametrize("seed", range(4))
def test_drafting_that_gains_a_third_is_revived_within_200_tokens(seed):
    home = machine(MEMORY_BOUND, 0.65, seed=seed)
    assert 1.2 <= best_fixed(lambda: machine(MEMORY_BOUND, 0.65)) * ROW <= 1.45
    stats = PairStats(home.cost.copy(), against_plain=PlainComparison(plain=True))
    assert tokens_until(home, stats, drafts, 400) <= 200


def test_a_winning_drafter_loses_at_most_a_twentieth_to_plain_stretches():
    home = machine(FLAT, 0.7)
    stats = PairStats(home.cost.copy())
    assert home.answers(stats, 20, 150).rate >= 0.95 * best_fixed(lambda: machine(FLAT, 0.7))


# what else a machine does


def steep(begin: float, end: float):
    """Others take half of the processors: wide passes suffer four times as much from it."""
    return lambda now, rows: (4.0 if rows > 1 else 1.3) if begin <= now < end else 1.0


def test_while_others_have_the_processors_nothing_is_lost_and_afterwards_drafting_comes_back():
    home = machine(FLAT, 0.6, load=steep(0.0, 12.0))
    stats = PairStats(home.cost.copy())
    while home.now < 11.5:
        home.answers(stats, 1, 30)
    assert stats.against_plain.draft.state == "off"
    assert tokens_until(home, stats, drafts, 600) <= 30 + 200
    assert home.answers(stats, 8, 150).rate >= 0.93 * best_fixed(lambda: machine(FLAT, 0.6))


def test_others_that_stay_cost_at_most_three_percent():
    home = machine(FLAT, 0.6, load=steep(0.0, 1e9))
    stats = PairStats(home.cost.copy())
    home.answers(stats, 2, 150)
    plain = machine(FLAT, 0.6, load=steep(0.0, 1e9)).run(FixedLength(0), 500).rate
    assert home.answers(stats, 18, 150).rate >= 0.97 * plain


def test_load_that_comes_while_drafting_ends_it_and_load_that_goes_brings_it_back():
    home = machine(FLAT, 0.6, load=steep(8.0, 20.0))
    stats = PairStats(home.cost.copy())
    while home.now < 7.0:
        home.answers(stats, 1, 50)
    assert drafts(stats)
    assert tokens_until(home, stats, ended, 400) <= 200
    while home.now < 20.0:
        home.answers(stats, 1, 50)
    assert tokens_until(home, stats, drafts, 600) <= 250


def test_a_machine_that_slows_down_all_alike_goes_on_drafting():
    def load(now: float, rows: int) -> float:
        return 1.0 + 3.0 * min(now / 30.0, 1.0)

    found = []
    for seed in range(4):
        make = partial(machine, FLAT, 0.6, load=load, seed=seed)
        home = make()
        stats = PairStats(home.cost.copy())
        found.append(home.answers(stats, 12, 150).rate / best_fixed(make, 12))
        assert drafts(stats)
    assert fmean(found) >= 0.93


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_interrupted_rounds_end_nothing_that_pays(share):
    home = machine(FLAT, 0.6, stalls=share)
    stats = PairStats(home.cost.copy())
    home.answers(stats, 12, 150)
    assert drafts(stats)
    assert stats.against_plain.draft.gained > 1.2 * stats.against_plain.draft.took


# the comparison itself


def told(comparison: PlainComparison, rounds: int, tokens: int, seconds: float, plain: float = 1.0) -> int:
    """Rounds of drafting, and plain ones wherever the comparison wants them; returns how many were drafted."""
    drafted = 0
    for _ in range(rounds):
        if comparison.wanted or comparison.draft.state == "off":
            comparison.observe_plain(plain)
        else:
            comparison.observe(comparison.draft, tokens, seconds)
            drafted += 1
    return drafted


def test_first_drafts_wait_for_no_plain_rounds_where_several_widths_were_measured():
    known = CostModel({1: 1.0, 2: 1.1}, 0.1)
    assert told(PairStats(known).against_plain, 20, 2, 1.2) == 20
    assert told(PairStats(CostModel({1: 1.0}, 0.1)).against_plain, 20, 2, 1.2) < 20  # it may have been a stall


def test_what_a_wrong_decision_costs_is_bounded_in_plain_rounds():
    comparison = PlainComparison()
    drafted = told(comparison, 1000, 1, 1.5)
    assert comparison.draft.state == "off"
    assert 0.5 * drafted <= 10.0


def test_knows_what_drafting_lost_before_it_was_ended():
    comparison = PlainComparison()
    told(comparison, 60, 1, 1.25)
    assert 0.05 <= comparison.lost <= 0.25


def test_tries_double_their_distance_and_begin_anew_where_something_changed():
    retry, tried = Backoff(), []
    for round_ in range(2000):
        if not retry.rounds_left(0.0):
            tried.append(round_)
            retry.failed()
        retry.wait(1)
    distances = [b - a for a, b in pairwise(tried)]
    assert distances == [8, 16, 32, 64, 128, 256, 512, 512]
    retry.again()
    assert retry.rounds_left(0.0) == 4


def test_tries_lose_no_more_than_their_share_of_the_time():
    retry, lost = Backoff(), 0
    for _ in range(20_000):
        if not retry.rounds_left(5.0):
            retry.failed(-5.0)
            lost += 5
        retry.wait(1)
    assert 0.0025 * 20_000 < lost <= 0.005 * 20_000 + 8


def test_a_try_dearer_than_all_that_may_be_saved_otherwise_is_saved_for():
    retry = Backoff()
    waited = 0
    while retry.rounds_left(20.0):
        retry.wait(1, price=20.0)
        waited += 1
    assert waited == pytest.approx(2400, abs=2)
