"""Writes a drafter with its adapter added in: one file of the same size and types that steps as fast as the bare one.

A LoRA costs a small drafter a third of its step and more; merged it costs nothing. Knows nothing of training.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, ReaderTensor
from gguf.quants import dequantize, quantize

from omnidraft.backends.gguf.expand.gguf_stream import need_space, replacing
from omnidraft.backends.gguf.expand.source import open_gguf
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
    return all(tensor.tensor_type in _FINE for tensor in open_gguf(drafter).tensors if len(tensor.shape) == 2)


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
        _merge(temporary, open_gguf(lora))
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


def _merge(file: Path, lora: GGUFReader) -> None:
    """Add what `lora` holds to the weights in `file`."""
    alpha = float(lora.fields["adapter.lora.alpha"].contents())
    halves = {tensor.name: tensor for tensor in lora.tensors}
    merged = GGUFReader(file, "r+")
    weights = {tensor.name: tensor for tensor in merged.tensors}
    for name in (name.removesuffix(".lora_a") for name in halves if name.endswith(".lora_a")):
        if name not in weights:
            raise ModelError(f"The adapter changes {name}, which the drafter does not have.")
        down = np.array(halves[f"{name}.lora_a"].data, np.float32)
        up = np.array(halves[f"{name}.lora_b"].data, np.float32)
        _add(weights[name], up, down * (alpha / len(down)))
    merged.data.flush()


def _add(weight: ReaderTensor, up: np.ndarray, down: np.ndarray) -> None:
    """weight += up @ down, in place, in the weight's own type."""
    for start in range(0, len(up), _ROWS):
        part = weight.data[start : start + _ROWS]
        plain = weight.tensor_type in (GGMLQuantizationType.F32, GGMLQuantizationType.F16)
        now = part.astype(np.float32) if plain else dequantize(part, weight.tensor_type)
        now = now + up[start : start + _ROWS] @ down
        part[:] = now.astype(part.dtype) if plain else quantize(now, weight.tensor_type)
