"""Copies of earlier text: nothing is paid before they were seen to be right, and each kind has its own rate."""

from __future__ import annotations

import pytest

from omnidraft.decoding.depth import AdaptiveDepth, Averages, CostModel, PairStats, copy_class
from omnidraft.decoding.drafting import PLAIN
from omnidraft.decoding.events import Round
from omnidraft.decoding.lookup import Match
from omnidraft.vocab import Proposal

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
    return policy.stats.averages.copies[copy_class(matched, own, agreed)].value


def test_copies_are_proposed_once_they_were_seen_to_be_right_and_no_longer_than_that():
    policy = lookups()
    assert policy.begin(0, found(5)) == PLAIN
    said(policy, found(5), True, 8)
    assert policy.begin(0, found(5)) > 0
    assert policy.begin(0, found(3)) == PLAIN  # other lengths of match are another matter
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


def test_accepted_copies_count_as_longer_matches():
    policy = lookups()
    copied = [Proposal(1, "lookup", 0, 0)] * 3
    for _ in range(60):
        policy.begin(0, found(4))
        policy.observe(Round(0, 3, 3, 2, 3, 0.0, 0.0, 0.018, 0.0, copied=3), copied, 1)
    assert value(policy, 4) > 0.9  # the first
    assert 0.4 < value(policy, 5) < 0.6  # second and third share a class: right, then wrong
    assert value(policy, 4, own=False) == Averages().copies[copy_class(4, False, False)].value


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
