"""What was measured of a pair is kept per profile, and known of its target whatever drafted."""

from __future__ import annotations

import pytest

from omnidraft.app.speeds import SpeedStore, speed_key
from omnidraft.decoding.pace import Pace, Proposer
from omnidraft.settings.config import ModelSettings


def measured(seconds: float) -> Pace:
    known = Pace({1: seconds, 4: 2 * seconds}, seconds / 5)
    known.draft = Proposer(left=True)
    known.keep()
    return known


def test_what_is_kept_comes_back_with_the_guard_s_decision(tmp_path):
    known = measured(0.01)
    known.threads = 1
    known.observe_plain([0.005] * 8)
    known.keep()
    SpeedStore(tmp_path).save("pair", known)
    again = SpeedStore(tmp_path).load("pair")
    assert again.as_dict() == known.as_dict()
    assert not again.drafts
    assert again.plain_seconds == pytest.approx(0.01)
    again.threads = 1
    assert again.plain_seconds == pytest.approx(0.005)


def test_costs_measured_on_a_busy_machine_are_not_written_and_do_not_replace_earlier_ones(tmp_path):
    store = SpeedStore(tmp_path)
    store.save("pair", Pace({1: 0.18}, 0.03))
    assert store.load("pair") is None
    store.save("pair", measured(0.01))
    store.save("pair", Pace({1: 0.18}, 0.03))
    assert store.load("pair").plain_seconds == 0.01


def test_the_plain_speed_of_a_target_is_known_whatever_drafted_beside_it(tmp_path):
    target, drafter, other = (tmp_path / f"{name}.gguf" for name in ("m", "d", "o"))
    for file in (target, drafter, other):
        file.touch()
    settings = ModelSettings(threads=2)
    for beside, seconds in ((None, 0.01), (drafter, 0.02)):
        known = measured(seconds)
        known.threads = 1
        known.observe_plain([seconds / 2] * 8)
        known.keep()
        SpeedStore(tmp_path).save(speed_key(target, beside, settings, "ann/-"), known)
    asked = [target, other, tmp_path / "gone.gguf"]
    assert SpeedStore(tmp_path).plain(settings, asked) == {target: pytest.approx((200 + 100) / 2)}
    assert SpeedStore(tmp_path).plain(ModelSettings(threads=1), asked) == {}
    target.write_bytes(b"another model")
    assert SpeedStore(tmp_path).plain(settings, asked) == {}
