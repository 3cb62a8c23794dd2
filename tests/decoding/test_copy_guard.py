"""Copies are left out for a while where measured time says that they lose."""

from __future__ import annotations

from omnidraft.decoding.adaptive import AdaptiveLength
from omnidraft.decoding.copy_guard import CopyGuard
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Round
from omnidraft.decoding.knowledge import Knowledge
from omnidraft.decoding.lookup import Match
from omnidraft.vocab import Proposal


def test_copies_that_lose_pause_ever_longer_and_may_then_lose_less():
    guard, lost, pauses = CopyGuard(), [], []
    for _ in range(3):
        before = 0.0
        while not guard.resting:
            guard.copied(1, 2.0, 1.0)
            before += 1.0
        lost.append(before)
        pauses.append(guard.resting)
        guard.resting = 0
    assert lost == [6.0, 2.0, 2.0]
    assert pauses == [64, 128, 256]


def test_copies_that_pay_never_pause_and_make_up_for_earlier_losses():
    guard = CopyGuard()
    for _ in range(6):
        guard.copied(1, 2.0, 1.0)
    guard.resting = 0
    for _ in range(50):
        guard.copied(3, 2.0, 1.0)
    assert not guard.resting
    for _ in range(4):
        guard.copied(1, 2.0, 1.0)
    assert not guard.resting  # as much may be lost as at first


def test_copies_that_lose_by_the_clock_are_left_out_however_cheap_wide_passes_are_believed_to_be():
    policy = AdaptiveLength(Knowledge(CostModel({1: 1.0, 9: 1.05}, 0.1)), None, longest=8)
    match = Match([1] * 8, 12, True)
    copied = 0
    for _ in range(200):  # nothing but copies is on offer: the guard asks for plain rounds itself
        length = policy.begin(0, match)
        if length > 0:
            copied += 1
            policy.observe(Round(0, length, 1, 0, 1, 0.0, 0.0, 4.0, 0.0), [Proposal(1, "lookup", 0, 0)] * length)
            policy.compared(True)
        else:
            policy.compared(True)
            policy.observe(Round(0, 0, 0, 0, 1, 0.0, 0.0, 1.0, 0.0), [])
    assert 0 < copied <= 20
