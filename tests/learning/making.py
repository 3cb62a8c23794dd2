"""Adapter versions made without training: one that changes nothing, or one that makes the drafter worse."""

import dataclasses
import functools
import io
from pathlib import Path

import numpy as np

from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, Version, model_fingerprint, write_adapter
from omnidraft.learning.training.drafter import TorchDrafter

RANK = 32


@functools.cache
def bare(drafter: Path) -> dict[str, np.ndarray]:
    """The weights of an adapter that changes nothing, in torch's order."""
    return TorchDrafter(drafter, RANK).weights()


def made(store: AdapterStore, drafter: Path, noise: float, **facts: object) -> Version:
    """Publish a whole, well-formed version. noise: standard deviation of what it adds, 0 for the bare drafter's own."""
    numbers = np.random.default_rng(7)
    weights = {name: value.copy() for name, value in bare(drafter).items()}
    for name, matrix in weights.items():
        if name.endswith(".lora_b"):
            matrix += numbers.normal(0, noise, matrix.shape).astype(np.float32) if noise else 0
    return _published(store, drafter, weights, facts)


def misshapen(store: AdapterStore, drafter: Path, parent: str) -> Version:
    """Publish a version that is whole on disk, but whose matrices are of another width than the drafter's."""
    weights = {n: np.pad(m, ((0, 0), (0, 8))) if n.endswith(".lora_a") else m for n, m in bare(drafter).items()}
    return _published(store, drafter, weights, {"parent": parent})


def _published(store: AdapterStore, drafter: Path, weights: dict[str, np.ndarray], facts: dict[str, object]) -> Version:
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.folder / ".adapter.gguf"
    write_adapter(path, weights, drafter, RANK)
    data = io.BytesIO()
    np.savez(data, **weights)
    meta = Meta(model_fingerprint(drafter), store.folder.name, rank=RANK)
    return store.publish({ADAPTER: path.read_bytes(), WEIGHTS: data.getvalue()}, dataclasses.replace(meta, **facts))
