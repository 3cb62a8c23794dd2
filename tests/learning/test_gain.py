"""What learning has brought, from the answers served before and since."""

import pytest

from omnidraft.learning.material.history import ServedAnswer, gain


def answers(count: int, version: str, accepted: int, target: str = "t") -> list:
    """Each: 20 tokens, 10 proposals."""
    return [ServedAnswer(0.0, version, target, 20, 12, 10, 8, accepted, 1.0)] * count


def test_the_gain_is_what_learned_versions_did_against_the_bare_drafter_before_them():
    served = [*answers(8, "", 2), *answers(6, "v000003", 4), *answers(6, "v000004", 6)]
    found = gain(served, "t", "v000004")
    assert found.version == "v000003"
    assert found.acceptance == (pytest.approx(0.2), pytest.approx(0.5))


@pytest.mark.parametrize("served", [
    [], answers(20, "", 2), [*answers(2, "", 2), *answers(20, "v000001", 4)],
    [*answers(20, "", 2), *answers(2, "v000001", 4)], [*answers(20, "", 2), *answers(20, "v000001", 4, target="other")],
])  # fmt: skip
def test_too_little_says_nothing(served):
    assert gain(served, "t", "v000001") is None
    assert gain([*answers(20, "", 2), *answers(20, "v000001", 4)], "t", None) is None, "or for the bare drafter"


def test_without_answers_of_the_bare_drafter_the_oldest_version_is_compared_with():
    served = [*answers(8, "v000002", 2), *answers(8, "v000005", 3)]
    found = gain(served, "t", "v000005")
    assert found.version == "v000005"
    assert found.acceptance == (pytest.approx(0.2), pytest.approx(0.3))


def test_after_a_rollback_answers_of_what_was_rolled_back_are_no_gain_of_the_version_served():
    served = [*answers(8, "", 2), *answers(6, "v000003", 4), *answers(6, "v000005", 0), *answers(6, "v000003", 4)]
    assert gain(served, "t", "v000003").acceptance == (pytest.approx(0.2), pytest.approx(0.4))
