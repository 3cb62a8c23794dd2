"""What the list of models says before one is loaded: whether it fits, and how fast it would be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.app import drafters, models_list
from omnidraft.app.models_list import Room
from omnidraft.app.speeds import Speed, SpeedStore, by_size, speed_key, speeds
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.devices import GPU, Device
from omnidraft.backends.llama.sizes import pass_bytes
from omnidraft.decoding.acceptance import Average
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.depth import PairStats
from omnidraft.settings.config import ModelSettings
from tests.hollow import SHAPES, write_hollow

GB = 1_000_000_000
SETTINGS = ModelSettings(threads=2)
FILE = Path("model.gguf")


def test_what_is_larger_than_what_is_free_does_not_fit():
    assert Room(8 * GB).fits(FILE, 7 * GB) == (True, "fits")
    assert Room(8 * GB).fits(FILE, 9 * GB) == (False, "too large: 8.0 GB are free")
    assert Room(None).fits(FILE, 9 * GB)[0]


@pytest.mark.parametrize(
    ("needed", "words"),
    [(7, "fits on the card"), (12, "fits, partly on the card"), (30, "too large: 20.1 GB are free")],
)
def test_a_card_holds_a_model_or_a_part_of_it(monkeypatch, needed, words):
    cards = [Device(0, "a", "a card", GPU, 8 * GB, 8 * GB), Device(0, "b", "another", GPU, 4 * GB, 4 * GB)]
    monkeypatch.setattr(models_list, "local_cards", lambda: cards)
    monkeypatch.setattr(models_list, "available_bytes", lambda: int(8.7 * GB))
    assert Room.now(SETTINGS, 0).fits(FILE, needed * GB)[1] == words
    on_processor = Room.now(ModelSettings(n_gpu_layers=0), 0)
    assert "card" not in on_processor.fits(FILE, 7 * GB)[1]


def measured(store: SpeedStore, target: Path, seconds: float) -> PairStats:
    known = PairStats(CostModel({1: seconds}, 0.001))
    known.cost.keep()
    store.save(speed_key(target, None, SETTINGS, None, True), known)
    return known


def test_a_speed_is_measured_or_estimated_by_the_bytes_of_a_pass(tmp_path, models):
    names = [("1B", "Q8_0"), ("3B", "Q8_0"), ("8B", "Q8_0"), ("3B", "Q4_K_M")]
    found = [read_info(write_hollow(tmp_path / f"{shape}-{kind}.gguf", SHAPES[shape], kind)) for shape, kind in names]
    one, three, eight, packed = found
    tiny = read_info(models / "tiny-target-a-f16.gguf")
    store = SpeedStore(tmp_path / "speed.json")
    assert speeds([*found, tiny], SETTINGS, store) == {}
    measured(store, one.path, 0.05)
    said = speeds([*found, tiny], SETTINGS, store)
    assert said[one.path] == Speed(pytest.approx(20))
    assert str(said[one.path]) == "about 20 tokens/s"
    for other in (three, eight, packed):
        assert said[other.path] == Speed(pytest.approx(20 * pass_bytes(one) / pass_bytes(other)), one.name)
    assert str(said[three.path]).endswith("tokens/s, estimated")
    assert tiny.path not in said  # its passes are more than the reading of weights
    assert by_size(found, said, 2 * pass_bytes(one)).plain == pytest.approx(10)


def test_where_nothing_was_measured_the_memory_tells_about_how_fast_a_model_is(tmp_path):
    info = read_info(write_hollow(tmp_path / "1B.gguf", SHAPES["1B"], "Q8_0"))
    found = speeds([info], SETTINGS, SpeedStore(tmp_path / "speed.json"), memory=20e9)
    assert found[info.path].plain == pytest.approx(0.5 * 20e9 / pass_bytes(info))
    assert "estimated" in str(found[info.path])
    now = speeds([info], SETTINGS, SpeedStore(tmp_path / "speed.json"), memory=20e9, now={info.path: 7.0})
    assert now[info.path] == Speed(7.0)


FLAT, STEEP = {1: 0.1, 2: 0.102, 9: 0.11}, {1: 0.1, 2: 0.2, 9: 0.9}


def at_hand(tmp_path, cost: dict[int, float] | None, *found):
    target, *others = found
    known = CostModel(cost, 0.001) if cost else None
    return drafters.at_hand([target, *others], target, SETTINGS, SpeedStore(tmp_path / "speed.json"), known)


@pytest.fixture
def shapes(tmp_path):
    return {
        name: read_info(write_hollow(tmp_path / f"{name}.gguf", SHAPES[name], "Q8_0")) for name in ("1B", "3B", "8B")
    }


def test_what_is_not_clearly_smaller_than_the_target_does_not_draft_for_it(tmp_path, shapes, models):
    smol, toy = (read_info(models / name) for name in ("smol-drafter-q8_0.gguf", "tiny-drafter-f16.gguf"))
    folder = replace(shapes["1B"], path=tmp_path)  # one can only be a target
    found = at_hand(tmp_path, FLAT, shapes["3B"], shapes["1B"], shapes["8B"], smol, toy, folder)
    assert sorted(one.model.name for one in found) == [shapes["1B"].name, smol.name]  # neither itself nor a toy
    a = read_info(models / "tiny-target-a-f16.gguf")
    assert [one.model.name for one in at_hand(tmp_path, FLAT, a, toy, smol)] == [toy.name]


def test_drafters_at_hand_are_ranked_by_the_speed_they_are_expected_to_bring(tmp_path, shapes, models):
    smol = read_info(models / "smol-drafter-q8_0.gguf")
    first, second = at_hand(tmp_path, FLAT, shapes["8B"], smol, shapes["1B"])
    assert first.gain > second.gain > 1.4
    assert first.speed == pytest.approx(10 * first.gain)
    assert second.memory > 1 * GB or first.memory > 1 * GB
    assert drafters.best([first, second], second.model.path) is first
    assert drafters.best([first, second], first.model.path) is None
    assert not any(one.pays for one in at_hand(tmp_path, STEEP, shapes["8B"], smol, shapes["1B"]))


def test_what_was_seen_of_a_pair_goes_before_what_is_assumed(tmp_path, shapes):
    target, drafter = shapes["8B"], shapes["1B"]
    known = PairStats(CostModel(FLAT, 0.001))
    known.averages.first = Average(0.9, 40.0)
    known.cost.keep()
    before = at_hand(tmp_path, FLAT, target, drafter)[0]
    store = SpeedStore(tmp_path / "speed.json")
    store.save(speed_key(target.path, drafter.path, SETTINGS, None, True), known)
    (after,) = drafters.at_hand([target, drafter], target, SETTINGS, store)  # the costs are known from then, too
    assert after.tried
    assert after.gain > 1.5 * before.gain
