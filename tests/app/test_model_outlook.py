"""What the list of models says before one is loaded: whether it fits, and how fast it would be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.app import models_list
from omnidraft.app.models_list import Room, needs
from omnidraft.app.speeds import Speed, SpeedStore, speed_key, speeds
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.devices import GPU, Device
from omnidraft.decoding.chances import Knowledge
from omnidraft.decoding.cost import CostModel
from omnidraft.settings.config import ModelSettings
from tests.hollow import SHAPES, write_hollow

GB = 1 << 30
SETTINGS = ModelSettings(threads=2)
FILE = Path("model.gguf")


def test_what_is_larger_than_what_is_free_does_not_fit():
    assert Room(8 * GB).fits(FILE, 7 * GB) == (True, "fits")
    assert Room(8 * GB).fits(FILE, 9 * GB) == (False, "too large: 8.0 GB are free")
    assert Room(None).fits(FILE, 9 * GB)[0]


def test_the_loaded_model_would_make_room(monkeypatch):
    monkeypatch.setattr(models_list, "local_cards", list)
    monkeypatch.setattr(models_list, "available_bytes", lambda: 2 * GB)
    assert Room.now(SETTINGS, 3 * GB).memory == 5 * GB


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


def test_a_folder_that_was_emptied_needs_nobody_knows_what(tmp_path, models):
    info = read_info(models / "tiny-target-a-f16.gguf")
    assert needs(info, SETTINGS)
    gone = tmp_path / "gone.gguf"
    gone.write_bytes(b"")
    assert needs(replace(info, path=gone, parts=(gone,)), SETTINGS) is None


def test_a_speed_is_measured_or_estimated_by_a_model_like_it(tmp_path, models):
    names = [("1B", "Q8_0"), ("3B", "Q8_0"), ("8B", "Q8_0"), ("3B", "Q4_K_M")]
    found = [read_info(write_hollow(tmp_path / f"{shape}-{kind}.gguf", SHAPES[shape], kind)) for shape, kind in names]
    one, three, eight, packed = found
    tiny = read_info(models / "tiny-target-a-f16.gguf")
    store = SpeedStore(tmp_path / "speed.json")
    assert speeds([*found, tiny], SETTINGS, store) == {}
    known = Knowledge(CostModel({1: 0.05}, 0.001))
    known.cost.keep()
    store.save(speed_key(one.path, None, SETTINGS, None, True), known)
    said = speeds([*found, tiny], SETTINGS, store)
    assert said[one.path] == Speed(pytest.approx(20))
    assert str(said[one.path]) == "about 20 tokens/s"
    assert said[three.path] == Speed(pytest.approx(20 * one.file_size / three.file_size), one.name)
    assert str(said[three.path]).endswith("tokens/s, estimated")
    for other in (eight, packed, tiny):  # six times the size, another format, too small to tell
        assert other.path not in said
