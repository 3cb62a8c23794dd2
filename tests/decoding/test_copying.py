"""Copies of earlier text: nothing is paid before they were seen to be right, and each length has its own rate."""

from __future__ import annotations

import pytest

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.copying import CopyRates
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.length import PLAIN
from omnidraft.decoding.lookup import Match
from omnidraft.vocab import Proposal

DEAR = {1: 0.010, 2: 0.014, 3: 0.018, 5: 0.026, 9: 0.042}


def lookups() -> AdaptiveLength:
    return AdaptiveLength(Knowledge(CostModel(dict(DEAR), step=0.002)), None, longest=8)


def found(length: int, own: bool = True) -> Match:
    return Match([1] * 8, length, own)


def test_copies_are_proposed_once_they_were_seen_to_be_right_and_no_longer_than_that():
    policy = lookups()
    assert policy.begin(0, found(5)) == PLAIN
    for _ in range(8):
        policy.compared(True)
        policy.begin(0, found(5))
    assert policy.begin(0, found(5)) > 0
    assert policy.begin(0, found(3)) == PLAIN  # other lengths of match are another matter
    for _ in range(12):
        policy.begin(0, found(5))
        policy.compared(False)
    assert policy.begin(0, found(5)) == PLAIN


def test_what_a_copy_is_worth_depends_on_how_much_agreed_before_it():
    rates = CopyRates()
    for _ in range(50):
        rates.add(3, False, own=True)
        rates.add(8, True, own=True)
    assert rates.chance(3, own=True) < 0.1
    assert rates.chance(7, own=True) == rates.chance(9, own=True) > 0.9
    assert rates.chance(4, own=True) == CopyRates().chance(4, own=True)


def test_an_answer_that_repeats_itself_says_nothing_about_what_it_shares_with_other_texts():
    policy = lookups()
    for _ in range(30):
        policy.begin(0, found(12))
        policy.compared(True)
    assert policy.begin(0, found(12, own=False)) == PLAIN
    for _ in range(30):
        policy.compared(True)
    assert policy.begin(0, found(12, own=False)) > 0


def test_accepted_copies_count_as_longer_matches():
    policy = lookups()
    copied = [Proposal(1, "lookup", 0, 0)] * 3
    for _ in range(60):
        policy.begin(0, found(4))
        policy.observe(Round(0, 3, 3, 2, 3, 0.0, 0.0, 0.018, 0.0), copied)
    rates = policy.knowledge.copies
    assert rates.chance(4, own=True) > 0.9  # the first
    assert 0.4 < rates.chance(5, own=True) < 0.6  # second and third share a class: right, then wrong
    assert rates.chance(4, own=False) == CopyRates().chance(4, own=False)  # nothing was heard of other texts


def test_an_answer_begins_where_the_pair_is_and_keeps_its_own_rates():
    policy = lookups()
    for _ in range(30):
        policy.begin(0, found(12))
        policy.compared(True)
    assert policy.knowledge.copies.chance(12, own=True) > 0.9
    following = AdaptiveLength(policy.knowledge, None, longest=8)
    assert following.begin(0, found(12)) > 0


def test_rates_survive_storage_and_damage_is_noticed():
    rates = CopyRates()
    rates.add(6, True, own=True)
    assert CopyRates.from_list(rates.as_list()).as_list() == rates.as_list()
    with pytest.raises(ValueError, match="division"):
        CopyRates.from_list([[0.5, 1.0]])


def test_what_several_passages_agree_on_is_trusted_by_its_own_record():
    rates = CopyRates()
    for _ in range(40):
        rates.add(4, True, own=False, agreed=True)
        rates.add(4, False, own=False)
    assert rates.chance(4, own=False, agreed=True) > 0.9
    assert rates.chance(4, own=False) < 0.1
