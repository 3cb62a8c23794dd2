"""Speeds: what was measured is kept per pair and profile; the speedup beside an answer is by its own plain rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnidraft.app.speeds import ENOUGH, RoundTimes, SpeedStore, speed_key
from omnidraft.decoding.events import Round
from omnidraft.decoding.pace import Pace, Proposer
from omnidraft.settings.config import ModelSettings


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "speed.json"


def measured(seconds: float) -> Pace:
    known = Pace({1: seconds, 4: 2 * seconds}, seconds / 5)
    known.draft = Proposer(left=True)
    known.keep()
    return known


def test_what_is_kept_comes_back_with_the_guard_s_decision(path):
    known = measured(0.01)
    known.threads = 1
    known.observe_plain([0.005] * 8)
    known.keep()
    SpeedStore(path).save("pair", known)
    again = SpeedStore(path).load("pair")
    assert again.as_dict() == known.as_dict()
    assert not again.drafts
    assert again.plain_seconds == pytest.approx(0.01)
    again.threads = 1
    assert again.plain_seconds == pytest.approx(0.005)


def test_figures_of_the_version_before_are_measured_again(path):
    path.write_text('{"version": 5, "entries": {"pair": {"cost": {"passes": {"0": {"1": 0.01}}}}}}')
    store = SpeedStore(path)
    assert store.load("pair") is None
    store.save("pair", measured(0.01))
    assert store.load("pair").plain_seconds == 0.01


def test_costs_measured_on_a_busy_machine_are_not_written_and_do_not_replace_earlier_ones(path):
    store = SpeedStore(path)
    store.save("pair", Pace({1: 0.18}, 0.03))
    assert store.load("pair") is None
    store.save("pair", measured(0.01))
    store.save("pair", Pace({1: 0.18}, 0.03))
    assert store.load("pair").plain_seconds == 0.01


def test_the_plain_speed_of_a_target_is_known_whatever_drafted_beside_it(path, tmp_path):
    target, drafter, other = (tmp_path / f"{name}.gguf" for name in ("m", "d", "o"))
    for file in (target, drafter, other):
        file.touch()
    settings = ModelSettings(threads=2)
    for beside, seconds in ((None, 0.01), (drafter, 0.02)):
        known = measured(seconds)
        known.threads = 1
        known.observe_plain([seconds / 2] * 8)
        known.keep()
        SpeedStore(path).save(speed_key(target, beside, settings, "ann/-"), known)
    asked = [target, other, tmp_path / "gone.gguf"]
    assert SpeedStore(path).plain(settings, asked) == {target: pytest.approx((200 + 100) / 2)}
    assert SpeedStore(path).plain(ModelSettings(threads=1), asked) == {}
    target.write_bytes(b"another model")
    assert SpeedStore(path).plain(settings, asked) == {}


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
