"""The decision on real answers: close to the best fixed length of each text, chosen afterwards, and never slower."""

from statistics import fmean

import pytest

from tests.decoding.recorded import TARGETS, speeds


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("task", ["code", "qa", None])
def test_close_to_the_best_fixed_length_of_the_text_and_to_plain_decoding(target, task):
    found = [dict(speeds(target, task, seed)) for seed in range(3)]
    adaptive = fmean(one.pop("adaptive") for one in found)
    best = fmean(max(one.values()) for one in found)
    print(f"{target.name}, {task}: {adaptive:.3f} of plain, {adaptive / best:.3f} of the best fixed length")
    assert adaptive >= 0.97 * best
    assert best >= 1.0
