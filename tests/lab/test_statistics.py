"""Figures with intervals: ratios of sums, paired where conditions are compared; intervals hold what is known."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.lab import statistics as stats
from omnidraft.lab.statistics import Trace
from tests.lab.traces import trace


def counts(rng, rate, answers=40):
    accepted = rng.binomial(30, rate, answers)
    return np.stack([np.full(answers, 30), accepted, accepted + 10, np.full(answers, 10)], 1)


def test_rates_are_ratios_of_sums_and_intervals_hold_them():
    rng = np.random.default_rng(0)
    seeds = [counts(rng, 0.3) for _ in range(3)]
    rate = stats.rate(seeds)
    every = np.concatenate(seeds).sum(0)
    assert rate.mean == pytest.approx(every[1] / every[0])
    assert rate.low < 0.3 < rate.high
    assert rate.high - rate.low < 0.1
    assert stats.tokens_per_pass(seeds).mean == pytest.approx(every[2] / every[3])


def test_a_speedup_is_of_summed_times_a_token_and_paired_by_prompt():
    """One prompt takes a hundred times as long in both ways: it weighs in the sums, and not in the interval."""
    plain, found = [trace(1.0), trace(1.0), trace(100.0)], [trace(0.5), trace(0.5), trace(50.0)]
    assert stats.speedup(plain, found) == stats.Value(2.0, 2.0, 2.0)
    uneven = stats.speedup([trace(1.0), trace(4.0)], [trace(1.0), trace(1.0)])
    assert (uneven.mean, uneven.low, uneven.high) == (2.5, 1.0, 4.0)
    assert stats.each(plain, found) == [2.0, 2.0, 2.0]
    assert stats.each([trace(1.0), Trace()], [Trace(), trace(1.0)]) == []
