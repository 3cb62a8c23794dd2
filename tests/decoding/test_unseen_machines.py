"""Machines and texts that the decision was not tuned on; written before it was.

Each line is how fast the policy is over the best that one fixed way would have been, and over plain decoding.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from tests.decoding.simulation import COMPUTE_BOUND, FLAT, MEMORY_BOUND, Machine

ROW = 0.010
GPU = {1: 1.0, 2: 1.08, 4: 1.08, 8: 1.10, 16: 1.15}  # bound by launching kernels: a drafter's step is dear
ANSWERS, TOKENS = 20, 150


def neighbour(now: float, rows: int) -> float:
    """A program that has one of two processors for three seconds in seven; many rows suffer more."""
    return (2.5 if rows > 1 else 1.4) if now % 7.0 < 3.0 else 1.0


def scaled(shape: dict[int, float]) -> dict[int, float]:
    return {n: ROW * c for n, c in shape.items()}


def flat_gpu(seed: int) -> Machine:
    return Machine(scaled(GPU), 0.25 * ROW, [0.75, 0.55], seed, catching_up=True)


def a_neighbour(seed: int) -> Machine:
    return Machine(scaled(FLAT), 0.1 * ROW, [0.6], seed, catching_up=True, load=neighbour)


def much_to_copy(seed: int) -> Machine:
    return Machine(scaled(MEMORY_BOUND), 0.1 * ROW, [0.4], seed, catching_up=True, copies=[0.0, 0.9, 0.9])


def nothing_to_copy_and_steep(seed: int) -> Machine:
    return Machine(scaled(COMPUTE_BOUND), 0.1 * ROW, [0.5], seed, catching_up=True, copies=[0.25])


def compared(make, seed: int) -> tuple[float, float]:
    """(over the best fixed length, over plain decoding)."""
    home = make(seed)
    rate = home.answers(home.pace.duplicate(), ANSWERS, TOKENS).rate
    plain = make(seed).answers(0, ANSWERS, TOKENS).rate
    best = max(make(seed).answers(k, ANSWERS, TOKENS).rate for k in (1, 2, 3, 4, 6, 7))
    return rate / max(best, plain), rate / plain


@pytest.mark.parametrize("seeds", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [flat_gpu, a_neighbour, much_to_copy, nothing_to_copy_and_steep])
def test_close_to_the_best_fixed_length_and_never_slower_than_plain(make, seeds):
    best, plain = map(fmean, zip(*(compared(make, seed) for seed in range(seeds)), strict=True))
    print(f"{make.__name__}: {best:.3f} of the best fixed length, {plain:.3f} of plain")
    assert best >= 0.93
    assert plain >= 0.98
