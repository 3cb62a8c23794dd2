"""The noise is recomputable, independent across counters, and standard Gumbel."""

import numpy as np
from scipy import stats

from omnidraft.decoding.sampling import GROUP, TAIL, gumbel, gumbels, uniforms


def test_same_counters_give_the_same_noise_in_any_company():
    alone = gumbel(7, 3, np.array([42]))
    among = gumbel(7, 3, np.arange(100))
    assert alone[0] == among[42]


def test_uniforms_are_uniform_over_ids_positions_and_seeds():
    over_ids = uniforms(1, 0, np.arange(50_000))
    over_positions = np.array([uniforms(1, p, np.array([5]))[0] for p in range(20_000)])
    over_seeds = np.array([uniforms(s, 0, np.array([5]))[0] for s in range(20_000)])
    for sample in (over_ids, over_positions, over_seeds):
        assert stats.kstest(sample, "uniform").pvalue > 1e-4
        assert sample.min() > 0
        assert sample.max() < 1


def test_neighbouring_counters_are_uncorrelated():
    ids = np.arange(50_000)
    a, b = uniforms(9, 4, ids), uniforms(9, 5, ids)
    for x, y in ((a[:-1], a[1:]), (a, b), (a, uniforms(10, 4, ids))):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.02


def test_few_outcomes_one_by_one_get_the_same_noise_as_many_at_once():
    rng = np.random.default_rng(0)
    for seed, position in ((0, 0), (7, 1), (-3, 200), (2**63 + 5, 100_000)):
        ids = [*rng.integers(0, 200_000, 20).tolist(), TAIL, GROUP + 3]
        expected = gumbel(seed, position, np.array(ids))
        np.testing.assert_allclose(gumbels(seed, position, ids), expected, rtol=1e-12)
        many = gumbels(seed, position, ids * 4)
        np.testing.assert_allclose(many, np.tile(expected, 4), rtol=1e-12)
