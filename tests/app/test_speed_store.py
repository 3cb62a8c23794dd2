"""What was measured is kept per pair and profile, but for what a busy machine or another version measured."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest

from omnidraft.app.speeds import PairSpeed, SpeedStore, speed_key
from omnidraft.decoding.depth import CostModel, PairStats, PlainComparison
from omnidraft.settings.config import ModelSettings


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "speed.json"


def measured(seconds: float) -> PairStats:
    known = PairStats(CostModel({1: seconds, 4: 2 * seconds}, seconds / 5), against_plain=PlainComparison(plain=True))
    known.cost.keep()
    return known


def test_what_is_kept_comes_back_with_the_guard_s_decision(path):
    known = measured(0.01)
    known.cost.threads = 1
    known.cost.observe_pass(1, 0.005)
    known.cost.keep()
    SpeedStore(path).save("pair", known)
    again = SpeedStore(path).load("pair")
    assert again.as_dict() == known.as_dict()
    assert not again.drafts
    assert again.cost.alone(1) == pytest.approx(0.01)
    again.cost.threads = 1
    assert again.cost.alone(1) == pytest.approx(0.005)


def test_costs_measured_on_a_busy_machine_are_not_written_and_do_not_replace_earlier_ones(path):
    store = SpeedStore(path)
    store.save("pair", PairStats(CostModel({1: 0.18}, 0.03)))
    assert store.load("pair") is None
    store.save("pair", measured(0.01))
    store.save("pair", PairStats(CostModel({1: 0.18}, 0.03)))
    assert store.load("pair").cost.pass_seconds(1) == 0.01


@pytest.mark.parametrize("cost", [{"passes": {"1": 0.18}, "step": 0.03, "fixed": 0.0}, {}, None])
def test_other_versions_and_damage_count_as_absent(path, cost):
    for version in (4, 5):
        entry = measured(0.01).as_dict() | {"cost": cost}
        path.write_text(json.dumps({"version": version, "entries": {"pair": entry}}))
        assert SpeedStore(path).load("pair") is None


def test_profiles_do_not_overwrite_each_other(path, tmp_path):
    model = tmp_path / "m.gguf"
    model.touch()
    for name, seconds in (("ann", 0.01), ("ben", 0.02), (None, None)):
        for profile, expected in (("ann", 0.01), ("ben", 0.02)):
            speed, found = PairSpeed(SpeedStore(path), tmp_path / profile), {}
            speed.of(model, None, ModelSettings())
            speed.recall("lora 32", found)
            if profile == name:
                speed.keep({"greedy": measured(seconds)})
            elif name is None:
                assert found["greedy"].cost.pass_seconds(1) == expected


def test_the_plain_speed_of_a_target_is_known_whatever_drafted_beside_it(path, tmp_path):
    target, drafter, other = (tmp_path / f"{name}.gguf" for name in ("m", "d", "o"))
    for file in (target, drafter, other):
        file.touch()
    settings = ModelSettings(threads=2)
    for beside, seconds in ((None, 0.01), (drafter, 0.02)):
        known = measured(seconds)
        known.cost.threads = 1
        known.cost.observe_pass(1, seconds / 2)
        known.cost.keep()
        SpeedStore(path).save(speed_key(target, beside, settings, "ann/-", True), known)
    asked = [target, other, tmp_path / "gone.gguf"]
    assert SpeedStore(path).plain(settings, asked) == {target: pytest.approx((200 + 100) / 2)}
    assert SpeedStore(path).plain(ModelSettings(threads=1), asked) == {}
    target.write_bytes(b"another model")
    assert SpeedStore(path).plain(settings, asked) == {}


def test_programs_that_write_at_once_lose_nothing(path):
    writers = [Thread(target=SpeedStore(path).save, args=(str(i), measured(0.01))) for i in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(SpeedStore(path).all()) == 12
