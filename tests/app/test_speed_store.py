"""What was measured is kept per pair, but for what a busy machine or another version measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnidraft.app.speed_store import SpeedStore
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.guard import Guard
from omnidraft.decoding.knowledge import Knowledge


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "speed.json"


def test_what_is_kept_comes_back_with_its_samples_and_the_guard_s_decision(path):
    known = Knowledge(CostModel({1: 0.01, 4: 0.02}, 0.002), guard=Guard(plain=True))
    SpeedStore(path).save("pair", known)
    again = SpeedStore(path).load("pair")
    assert again.as_dict() == known.as_dict()
    assert again.guard.plain_only
    assert again.cost.kept[4].date


def test_costs_measured_on_a_busy_machine_are_not_written_and_do_not_replace_earlier_ones(path):
    store = SpeedStore(path)
    store.save("pair", Knowledge(CostModel({1: 0.18}, 0.03, kept={})))
    assert store.load("pair") is None
    store.save("pair", Knowledge(CostModel({1: 0.01}, 0.002)))
    store.save("pair", Knowledge(CostModel({1: 0.18}, 0.03, kept={})))
    assert store.load("pair").cost.pass_seconds(1) == 0.01


@pytest.mark.parametrize("cost", [{"passes": {"1": 0.18}, "step": 0.03, "fixed": 0.0}, {}])
def test_other_versions_and_damage_count_as_absent(path, cost):
    entry = Knowledge(CostModel({1: 0.01}, 0.002)).as_dict() | {"cost": cost}
    for version in (1, 2):
        path.write_text(json.dumps({"version": version, "entries": {"pair": entry}}))
        assert SpeedStore(path).load("pair") is None
