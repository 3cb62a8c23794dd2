"""The speedup shown beside an answer: what plain decoding would have taken, by the answer's own plain rounds."""

from __future__ import annotations

import random

import pytest

from omnidraft.app.answer_job import Live
from omnidraft.app.speeds import ENOUGH, PlainRounds, RoundTimes
from omnidraft.decoding.events import Finished, Round, Token
from ui.chat.panel import panel


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


def test_drafting_that_came_to_nothing_counts_as_time_lost():
    answer = pace(*[plain()] * 10, *[drafted(1, 0.03, proposed=0)] * 10)
    assert answer.speedup() == pytest.approx(0.5)


def test_nothing_drafted_is_no_speedup():
    assert pace(*[plain()] * 50).speedup() is None


def test_a_busier_machine_changes_both_sides():
    quiet = [*[plain()] * 10, *[drafted(3, 0.015)] * 10]
    busy = [*[plain(0.1)] * 10, *[drafted(3, 0.15)] * 10]
    assert pace(*busy).speedup(earlier=[0.01] * 40) == pytest.approx(pace(*quiet).speedup())


@pytest.mark.parametrize("interrupted", [plain(0.5), drafted(3, 0.5)])
def test_an_interruption_says_nothing_about_drafting(interrupted):
    rounds = [*[plain()] * 20, *[drafted(3, 0.015)] * 20]
    assert pace(*rounds, interrupted).speedup() == pytest.approx(pace(*rounds).speedup(), rel=0.06)


def test_scattered_times_do_not_favour_either_side():
    luck = random.Random(0)
    found = []
    for _ in range(400):
        rounds = [plain(0.01 * luck.lognormvariate(0, 0.5)) for _ in range(12)]
        rounds += [drafted(2, 0.02 * luck.lognormvariate(0, 0.5)) for _ in range(30)]
        found.append(pace(*rounds).speedup())
    assert sorted(found)[200] == pytest.approx(1.0, abs=0.03)


def test_answers_with_few_plain_rounds_take_those_before():
    few = pace(turned(0.02), *[plain(0.02)] * (ENOUGH - 2), *[drafted(3, 0.02)] * 10)
    assert few.speedup() is None
    assert few.speedup(earlier=[0.01] * 3) == pytest.approx((0.02 + 36 * (0.03 + 0.02 * 6) / 9) / (0.02 * 17))


def test_rounds_that_plain_decoding_does_not_consist_of_are_no_samples():
    """The first round, right behind the prompt, and those behind a wider pass take longer."""
    usual, behind = [*[plain()] * 10], [*[drafted(3, 0.015), turned(0.02)] * 10]
    answer = pace(turned(0.03), *usual, *behind)
    assert answer.plain == [0.01] * 10
    assert answer.speedup() == pytest.approx((0.03 + 50 * 0.01) / (0.03 + 0.1 + 10 * 0.035))


def test_no_answer_is_said_to_be_faster_than_its_tokens_per_pass():
    few = pace(*[plain(0.01)] * 4, *[drafted(2, 0.011)] * 4)
    assert few.speedup(earlier=[0.03] * 40) == pytest.approx(12 / 8)


def test_the_latest_plain_rounds_are_remembered_per_target():
    rounds = PlainRounds()
    rounds.add("m", [1.0] * 100)
    rounds.add("m", [2.0])
    assert rounds.of("m")[-2:] == [1.0, 2.0]
    assert len(rounds.of("m")) == 40
    assert rounds.of("other") == []


def test_the_panel_says_what_plain_decoding_would_have_made():
    live = Live()
    for one in [*[plain()] * 10, *[drafted(3, 0.015)] * 10]:
        for _ in range(one.emitted):
            live.take(Token(1, b"a", "a", "direct", 0))
        live.take(one)
    shown = panel(live, None, plain=live.plain())
    assert "1.60×" in shown
    assert "made 100 tokens/s" in shown
    live.take(Finished("stop", live.statistics))
    assert panel(live, None, plain=live.plain()) == shown
