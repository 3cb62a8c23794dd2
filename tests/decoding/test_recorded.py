"""The decision on real answers: close to the best fixed length of each text, chosen afterwards, and never slower."""

import pytest

from tests.decoding.recorded import TARGETS, speeds


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("task", ["math", "code", "dialogue", "qa"])
def test_close_to_the_best_fixed_length_of_the_text_and_to_plain_decoding(target, task):
    found = dict(speeds(target, task))
    adaptive = found.pop("adaptive")
    best = max(found.values())
    print(f"{target.name}, {task}: {adaptive:.3f} of plain, {adaptive / best:.3f} of the best fixed length")
    assert adaptive >= 0.97 * best
    assert best >= found["0"] == 1.0


def test_what_is_known_of_a_pair_serves_all_kinds_of_text():
    """One memory through answers to everything is not slower than the best fixed length for all of them."""
    for target in TARGETS:
        found = dict(speeds(target))
        assert found.pop("adaptive") >= max(found.values())
