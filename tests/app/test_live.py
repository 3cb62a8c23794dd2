"""The speedup beside an answer is by its own plain rounds."""

from __future__ import annotations

import pytest

from omnidraft.app.live import ENOUGH, RoundTimes
from omnidraft.decoding.events import Round


def plain(seconds: float = 0.01) -> Round:
    return Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0, plain=True)


def turned(seconds: float) -> Round:
    """Nothing was drafted, but it is the first of an answer or behind a wider pass."""
    return Round(0, 0, 0, 0, 1, 0.0, 0.0, seconds, 0.0)


def drafted(emitted: int, seconds: float, proposed: int = 4) -> Round:
    return Round(4, proposed, proposed, emitted - 1, emitted, seconds / 2, 0.0, seconds / 2, 0.0)


def pace(*rounds: Round) -> RoundTimes:
    made = RoundTimes()
    for one in rounds:
        made.take(one)
    return made


def test_the_speedup_is_plain_time_over_time_taken():
    answer = pace(*[plain()] * 10, *[drafted(3, 0.015)] * 10)
    assert answer.speedup() == pytest.approx(40 * 0.01 / (10 * 0.01 + 10 * 0.015))


def test_nothing_drafted_is_no_speedup():
    assert pace(*[plain()] * 50).speedup() is None


@pytest.mark.parametrize("interrupted", [plain(0.5), drafted(3, 0.5)])
def test_an_interruption_says_nothing_about_drafting(interrupted):
    rounds = [*[plain()] * 20, *[drafted(3, 0.015)] * 20]
    assert pace(*rounds, interrupted).speedup() == pytest.approx(pace(*rounds).speedup(), rel=0.06)


def test_answers_with_few_plain_rounds_take_those_before():
    few = pace(turned(0.02), *[plain(0.02)] * (ENOUGH - 2), *[drafted(3, 0.02)] * 10)
    assert few.speedup() is None
    recent = [0.01] * 3 + few.plain
    assert few.speedup(recent) == pytest.approx((0.02 + 36 * (0.03 + 0.02 * 6) / 9) / (0.02 * 17))


def test_no_answer_is_said_to_be_faster_than_its_tokens_per_pass():
    few = pace(*[plain(0.01)] * 4, *[drafted(2, 0.011)] * 4)
    assert few.speedup([0.03] * 40) == pytest.approx(12 / 8)
