"""Writes a drafter with its adapter added in: one file of the same size and types that steps as fast as the bare one.

A LoRA costs a small drafter a third of its step and more; merged it costs nothing. Knows nothing of training.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize

from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.gguf.tensor_map import MappedTensor, map_tensors
from omnidraft.backends.gguf.writing import need_space, replacing
from omnidraft.errors import ModelError
from omnidraft.learning.adapters.versions import ADAPTER, Version
from omnidraft.storage.files import put_in, readable
from omnidraft.storage.vault import vault_of

LARGEST = 400 << 20  # bytes of a drafter; beyond it the adapter weighs little and a copy weighs much
_ROWS = 4096  # added to at once
_FINE = (
    GGMLQuantizationType.F32,
    GGMLQuantizationType.F16,
    GGMLQuantizationType.BF16,
    GGMLQuantizationType.Q8_0,
)  # coarser types would round most of an adapter away


def can_merge(drafter: Path) -> bool:
    """Whether a merged copy is worth its disk space and keeps what was learned."""
    if not drafter.is_file() or drafter.stat().st_size > LARGEST:
        return False
    return all(tensor.type in _FINE for tensor in read_header(drafter).tensors.values() if len(tensor.shape) == 2)


def merged_path(folder: Path, version: Version) -> Path:
    """Where in a folder the merged file of a version is: its name follows from the adapter's content."""
    store = version.path.parent
    return folder / store.parent.name / store.name / f"{version.name}-{version.meta.sha256[ADAPTER][:16]}.gguf"


def write_merged(drafter: Path, adapter: Path, out: Path) -> Path:
    """Write W + alpha / rank * B A for every adapted W of `drafter` to `out`, whole or not at all.

    adapter: a GGUF LoRA of this drafter. Types stay: F16 rounds the sum to 1/2048 of itself, Q8_0 to 1/254 of the
    largest weight among 32 neighbours.
    """
    need_space(out.parent, drafter.stat().st_size)
    with readable(adapter) as lora, _writing(out) as temporary:
        shutil.copyfile(drafter, temporary)
        _merge(temporary, lora)
    return out


@contextmanager
def _writing(out: Path) -> Iterator[Path]:
    """A file to write to, moved to `out` when the block ends well; sealed where that is encrypted."""
    vault = vault_of(out)
    with replacing(out) as stored:
        if vault is None:
            yield stored
            return
        with vault.scratch() as folder:
            yield folder / out.name
            put_in(folder / out.name, stored)


def _merge(file: Path, lora: Path) -> None:
    """Add what `lora` holds to the weights in `file`."""
    alpha = float(read_header(lora).metadata["adapter.lora.alpha"])
    halves, weights = map_tensors(lora), map_tensors(file, "r+")
    for name in (name.removesuffix(".lora_a") for name in halves if name.endswith(".lora_a")):
        if name not in weights:
            raise ModelError(f"The adapter changes {name}, which the drafter does not have.")
        down, up = halves[f"{name}.lora_a"].rows(), halves[f"{name}.lora_b"].rows()
        _add(weights[name], up, down * (alpha / len(down)))


def _add(weight: MappedTensor, up: np.ndarray, down: np.ndarray) -> None:
    """weight += up @ down, in place, in the weight's own type."""
    for start in range(0, len(up), _ROWS):
        part = slice(start, start + _ROWS)
        now = weight.rows(part) + up[part] @ down
        weight.data[part] = now if weight.is_plain else quantize(now, weight.type)
