"""Switching models where the memory cannot hold both: the old one goes first, and comes back if the new one fails."""

from __future__ import annotations

import pytest

from omnidraft.app.loaded_pair import LoadedPair, LoadRequest
from omnidraft.backends.llama import estimate
from omnidraft.errors import ModelError, NoRoom
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import find_data_home

SETTINGS = ModelSettings(n_ctx=256, threads=1)


@pytest.fixture
def pair(tmp_path):
    home = find_data_home(tmp_path)
    made = LoadedPair(home.profile("default"), home.cache)
    yield made
    made.close()


def asking(target, drafter=None) -> LoadRequest:
    return LoadRequest(target, drafter, SETTINGS, CacheSettings())


@pytest.fixture
def room_for_one(pair, monkeypatch):
    """Free memory as long as nothing is loaded, hardly any beside a model."""
    monkeypatch.setattr(estimate, "available_bytes", lambda: 1 << 34 if pair.engine is None else 1 << 20)


def test_the_old_model_makes_room(pair, models, room_for_one):
    pair.load(asking(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"))
    first = pair.target
    with pytest.raises(NoRoom):
        estimate.check_memory(first.info, SETTINGS, 256)
    pair.load(asking(models / "tiny-target-b-f16.gguf"))
    assert pair.target_file == models / "tiny-target-b-f16.gguf"
    assert pair.drafter is None


def test_it_comes_back_where_the_new_one_cannot_be_loaded(pair, models, tmp_path, room_for_one, monkeypatch):
    before = asking(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf")
    pair.load(before)
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes((models / "tiny-target-b-f16.gguf").read_bytes()[:-4096])
    monkeypatch.setattr("omnidraft.app.loaded_pair.crowded", lambda path, settings: True)
    with pytest.raises(ModelError):
        pair.load(asking(damaged))
    assert pair.asked == before
    assert pair.target.extend([1, 2, 3], 1).shape[0] == 1
    assert pair.drafter is not None
