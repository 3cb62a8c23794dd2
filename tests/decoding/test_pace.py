"""Measured speed has the last word, whatever was measured or stored before: on simulated machines with a clock."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from statistics import fmean

import pytest

from omnidraft.decoding.drafting import FixedLength
from omnidraft.decoding.pace import PURSE, Pace, Proposer
from omnidraft.errors import SettingsError
from omnidraft.processes.trying import FIRST, Patience
from tests.decoding.simulation import COMPUTE_BOUND, FLAT, MEMORY_BOUND, Machine

ROW, STEP = 0.014, 0.002
FIRST_HOME = Pace({1: 0.180}, STEP)  # one stalled figure and no other width
SECOND_HOME = Pace({1: 0.038, 3: 0.014, 5: 0.015}, STEP)
STALLED_WIDE = Pace({1: ROW, 2: 12 * ROW, 3: 12 * ROW, 5: 12 * ROW}, STEP)
HOPEFUL = Pace({n: ROW * c for n, c in FLAT.items()}, STEP)  # what a machine is believed to be that is not


def machine(shape: dict[int, float], acceptance: float, *, step: float = STEP, seed: int = 1, **about) -> Machine:
    passes = {n: ROW * c for n, c in shape.items()}
    return Machine(passes, step, [acceptance], seed, catching_up=True, **about)


def plain_rate(of: Machine, tokens: int) -> float:
    return of.run(FixedLength(0), tokens).rate


def best_fixed(make, answers: int = 10) -> float:
    return max(make().answers(k, answers, 150).rate for k in (2, 3, 4, 6))


def tokens_until(of: Machine, pace: Pace, wanted, most: int) -> int:
    """Tokens made, in answers of 150, before what is known is as `wanted`; `most` if it never is."""
    made = 0
    while made < most:
        policy = of.adaptive(pace=pace)
        for _ in range(15):
            made += of.run(policy, 10).tokens
            if wanted(pace):
                return made
        policy.finish()
    return most


def ended(known: Pace) -> bool:
    """By the clock, or by estimates that have seen reason."""
    return not known.drafts


def drafts(known: Pace) -> bool:
    """No longer on trial."""
    return known.drafts and known.draft.purse > PURSE / 2


# homes whose stored costs were measured while the machine was busy


@pytest.mark.parametrize("known", [FIRST_HOME, SECOND_HOME, STALLED_WIDE], ids=["first", "second", "wide"])
def test_wrong_costs_do_not_keep_a_good_drafter_from_drafting(known):
    home = machine(FLAT, 0.6, known=known)
    pace = known.duplicate()
    home.answers(pace, 2, 150)
    assert home.answers(pace, 10, 150).rate >= 0.95 * best_fixed(lambda: machine(FLAT, 0.6))


@pytest.mark.parametrize("known", [FIRST_HOME, SECOND_HOME, HOPEFUL], ids=["first", "second", "hopeful"])
@pytest.mark.parametrize(("shape", "acceptance"), [(COMPUTE_BOUND, 0.2), (COMPUTE_BOUND, 0.5), (MEMORY_BOUND, 0.1)])
def test_wrong_costs_do_not_make_a_losing_drafter_draft(known, shape, acceptance):
    home = machine(shape, acceptance, known=known)
    pace = known.duplicate()
    plain = plain_rate(machine(shape, acceptance), 1000)
    assert home.answers(pace, 2, 150).rate >= 0.88 * plain
    assert home.answers(pace, 18, 150).rate >= 0.97 * plain


# in both directions, within about 200 tokens


@pytest.mark.parametrize("seed", range(4))
def test_drafting_that_loses_a_fifth_is_ended_within_200_tokens(seed):
    """Steep passes believed to be flat: about 0.8 of plain speed."""
    home = machine(MEMORY_BOUND, 0.25, step=0.3 * ROW, seed=seed)
    assert 0.7 <= home.run(FixedLength(1), 1000).rate * ROW <= 0.9
    pace = HOPEFUL.duplicate()
    assert tokens_until(home, pace, ended, 400) <= 200


@pytest.mark.parametrize("seed", range(4))
def test_drafting_that_gains_a_third_is_revived_within_200_tokens(seed):
    home = machine(MEMORY_BOUND, 0.65, seed=seed)
    assert 1.2 <= best_fixed(lambda: machine(MEMORY_BOUND, 0.65)) * ROW <= 1.45
    pace = home.pace.duplicate()
    pace.draft = Proposer(left=True)
    assert tokens_until(home, pace, drafts, 400) <= 200


# what else a machine does


def steep(begin: float, end: float):
    """Others take half of the processors: wide passes suffer four times as much from it."""
    return lambda now, rows: (4.0 if rows > 1 else 1.3) if begin <= now < end else 1.0


def test_others_that_stay_cost_at_most_three_percent():
    home = machine(FLAT, 0.6, load=steep(0.0, 1e9))
    pace = home.pace.duplicate()
    home.answers(pace, 2, 150)
    plain = machine(FLAT, 0.6, load=steep(0.0, 1e9)).run(FixedLength(0), 500).rate
    assert home.answers(pace, 18, 150).rate >= 0.97 * plain


def test_load_that_comes_while_drafting_ends_it_and_load_that_goes_brings_it_back():
    home = machine(FLAT, 0.6, load=steep(8.0, 20.0))
    pace = home.pace.duplicate()
    while home.now < 7.0:
        home.answers(pace, 1, 50)
    assert drafts(pace)
    assert tokens_until(home, pace, ended, 400) <= 200
    while home.now < 20.0:
        home.answers(pace, 1, 50)
    assert tokens_until(home, pace, drafts, 600) <= 250


def test_a_machine_that_slows_down_all_alike_goes_on_drafting():
    def load(now: float, rows: int) -> float:
        return 1.0 + 3.0 * min(now / 30.0, 1.0)

    found = []
    for seed in range(16):
        make = partial(machine, FLAT, 0.6, load=load, seed=seed)
        home = make()
        pace = home.pace.duplicate()
        found.append(home.answers(pace, 12, 150).rate / best_fixed(make, 12))
        assert drafts(pace)
    assert fmean(found) >= 0.93


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_interrupted_rounds_end_nothing_that_pays(share):
    home = machine(FLAT, 0.6, stalls=share)
    pace = home.pace.duplicate()
    home.answers(pace, 12, 150)
    assert drafts(pace)
    assert pace.draft.gained > 1.2 * pace.draft.took


# the clock's judgement


def test_knows_what_drafting_lost_before_it_was_ended():
    pace = Pace({1: 1.0}, 0.1)
    assert pace.lost is None
    for _ in range(60):
        pace.draft.observe(1, 1.25)
    assert 0.05 <= pace.lost <= 0.25


def test_tries_in_vain_come_ever_more_rarely_and_soon_where_something_changed():
    patience, tried = Patience(), []
    for round_ in range(4000):
        if not patience.left(2.0):
            tried.append(round_)
            patience.tried()
        patience.waited += 1
    assert [b - a for a, b in pairwise(tried)] == [16, 32, 64, 128, 256, 400, 400, 400, 400, 400, 400, 400, 400]
    patience.renew()
    assert patience.left(2.0) <= 8


def test_a_machine_that_changes_makes_everything_worth_another_try():
    pace = Pace({1: 1.0, 4: 1.2}, 0.1)
    for _ in range(3):
        pace.passes.observe(4, 3.0)
    for _ in range(9):
        pace.draft.patience.tried()
    pace.observe_plain([1.05] * 8)
    assert pace.draft.patience.left(1.0) > 100
    assert pace.extra(4) > 1.0
    pace.observe_plain([1.6] * 8)
    assert pace.draft.patience.left(1.0) <= 8
    assert pace.extra(4) == pytest.approx(0.2 * 1.6)


# what passes take


def test_an_interrupted_pass_changes_nothing():
    pace = Pace({1: 1.0, 2: 1.2}, 0.1)
    pace.observe_plain([1.0, 50.0, 1.0, 1.0])
    for seconds in (1.2, 50.0, 1.2):
        pace.passes.observe(2, seconds)
    assert pace.plain_seconds == 1.0
    assert pace.passes.seconds(2) == pytest.approx(1.2)


def test_survives_storage_and_refuses_nonsense():
    pace = Pace({1: 1.0, 4: 2.0}, 0.1)
    pace.observe_plain([1.4] * 8)
    for _ in range(5):
        pace.draft.patience.tried()
    again = Pace.from_dict(pace.as_dict())
    assert again.draft.patience.times == pace.draft.patience.times == 32 * FIRST
    before = {key: value for key, value in pace.as_dict().items() if key != "patience"}
    assert Pace.from_dict(before).draft.patience.times == FIRST
    assert again.passes.seconds(4) == pytest.approx(pace.passes.seconds(4)) == pytest.approx(2.8)
    for passes in ({}, {2: 1.0}, {1: 0.0}, {1: float("nan")}):
        with pytest.raises(SettingsError):
            Pace(passes, 0.1)


def test_before_real_rounds_a_wider_pass_that_was_quicker_is_right():
    pace = Pace({1: 1.0, 2: 1.9, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83}, 0.1)
    curve = [pace.passes.seconds(n) for n in range(1, 20)]
    assert curve == sorted(curve)
    assert curve[2] == pytest.approx(2.93)


def test_widths_that_real_rounds_found_dearer_than_a_wider_one_are_believed():
    """A kernel takes eight rows at once and leftovers one by one."""
    pace = Pace({1: 1.0, 4: 1.5, 6: 3.2, 8: 1.9}, 0.1)
    assert pace.passes.seconds(6) == pytest.approx(1.9)
    for _ in range(8):
        pace.passes.observe(6, 3.2)
        pace.passes.observe(8, 1.9)
    assert pace.passes.seconds(6) == pytest.approx(3.2)
    assert pace.passes.seconds(8) == pytest.approx(1.9)


def test_rounds_that_contradict_a_figure_cast_the_same_doubt_on_those_never_used():
    pace = Pace({1: 1.0, 3: 12.0, 5: 12.0, 8: 12.0}, 0.1)
    pace.passes.observe(3, 1.1)
    assert pace.passes.seconds(3) == pytest.approx(1.1)
    assert pace.passes.seconds(8) < 2.0
    cheap = Pace({1: 1.0, 4: 1.1}, 0.1)
    for _ in range(8):
        cheap.passes.observe(4, 2.5)
    assert cheap.passes.seconds(4) == pytest.approx(2.5)
    assert cheap.passes.seconds(8) > 2.5
