"""What a regime opens: the drafter enlarged or as it is, and one that learned as the app would serve it."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.backends.gguf.expand.shapes import SHAPES
from omnidraft.bench import regimes
from omnidraft.bench.regimes import OWN
from omnidraft.learning.adapters.gguf import write_adapter
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.storage.paths import DataHome


def test_a_drafter_is_enlarged_beside_a_large_target_unless_told_otherwise():
    assert regimes.shape_of_drafter("bundled") is None
    assert regimes.shape_of_drafter("0.5b-F32") == SHAPES["68m"]
    assert regimes.shape_of_drafter("0.5b-F32", "160m") == SHAPES["160m"]
    assert regimes.shape_of_drafter("0.5b-F32", OWN) is None
    assert regimes.shape_of_drafter("0.1b-F32") is None
    assert regimes.shape_of_drafter("bundled", "68m") is None


@pytest.fixture
def adapter(models, tmp_path):
    """An adapter that changes the drafter."""
    drafter, rank = models / "tiny-drafter-f16.gguf", 4
    numbers = np.random.default_rng(3)
    weights = {name: value.numpy().copy() for name, value in TorchDrafter(drafter, rank).weights().items()}
    weights = {name: m + numbers.normal(0, 0.05, m.shape).astype(np.float32) for name, m in weights.items()}
    write_adapter(tmp_path / "adapter.gguf", weights, drafter, rank)
    return tmp_path / "adapter.gguf"


def test_what_was_learned_is_added_to_the_drafters_file(models, adapter, tmp_path, monkeypatch):
    home, drafter = DataHome(tmp_path / "home"), models / "tiny-drafter-f16.gguf"
    file, beside = regimes.taught(home, "0.5b-F32", adapter, drafter, OWN)
    assert beside is None
    assert file.stat().st_size == drafter.stat().st_size
    assert file.read_bytes() != drafter.read_bytes()
    made = file.stat().st_mtime_ns
    assert regimes.taught(home, "bundled", adapter, drafter) == (file, None)
    assert file.stat().st_mtime_ns == made  # found, not written again
    monkeypatch.setattr(regimes, "can_merge", lambda _drafter: False)
    assert regimes.taught(home, "bundled", adapter, drafter) == (drafter, adapter)
