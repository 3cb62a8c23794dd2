"""Selecting the largest few equals a full sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from omnidraft.decoding.topk import top_ids


def by_sorting(row, k):
    return np.argsort(-row, kind="stable")[:k]


@given(arrays(np.float32, st.integers(1, 700), elements=st.integers(-5, 5)), st.integers(1, 60))
def test_equals_a_stable_sort_also_with_ties(row, k):
    assert top_ids(row, k).tolist() == by_sorting(row, k).tolist()


@pytest.mark.parametrize("size", [3072, 32_000, 128_256, 151_936])
def test_equals_a_sort_at_real_vocabulary_sizes(size):
    row = np.random.default_rng(size).normal(size=size).astype(np.float32)
    row[-100:] = -np.inf
    for k in (1, 24, 48, 65):
        assert top_ids(row, k).tolist() == by_sorting(row, k).tolist()
