"""An adapter as llama.cpp loads it: a GGUF LoRA, or a drafter with its adapter added in.

llama.cpp stores the query and key rows of the llama architecture in another order than torch (rotary halves
interleaved); an adapter's B matrix has the same rows and is reordered alike. The merged file has the bare one's size
and types: a LoRA costs a small drafter a third of its step and more; merged it costs nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

from omnidraft.backends.gguf.convert import need_space, replacing
from omnidraft.backends.gguf.header import MappedTensor, map_tensors, permuted, read_header
from omnidraft.errors import ModelError
from omnidraft.learning.adapters.versions import ADAPTER, Version
from omnidraft.storage.files import put_in, readable
from omnidraft.storage.vault import vault_of

PERMUTED = ("llama",)  # architectures whose query and key rows llama.cpp reorders


def write_adapter(path: Path, weights: Mapping[str, np.ndarray], drafter: Path, alpha: float) -> None:
    """Write `weights` ({"blk.0.attn_q.lora_a": (rank, in), "....lora_b": (out, rank)}) as a GGUF LoRA for `drafter`, in
    F16. ModelError if they are not finite."""
    architecture, heads = _shape(drafter)
    writer = GGUFWriter(str(path), architecture)
    try:
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(alpha))
        for name, matrix in sorted(weights.items()):
            layer, _, part = name.rpartition(".")
            if not np.isfinite(matrix).all():
                raise ModelError(f"training made {name} infinite; the adapter was not written")
            reordered = _heads_of(layer, architecture, heads) if part == "lora_b" else None
            rows = matrix if reordered is None else permuted(matrix, reordered)
            writer.add_tensor(f"{layer}.weight.{part}", np.ascontiguousarray(rows, np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _shape(drafter: Path) -> tuple[str, dict[str, int]]:
    known = read_header(drafter).metadata
    architecture = known["general.architecture"]
    heads = known[f"{architecture}.attention.head_count"]
    return architecture, {"attn_q": heads, "attn_k": known.get(f"{architecture}.attention.head_count_kv", heads)}


def _heads_of(layer: str, architecture: str, heads: Mapping[str, int]) -> int | None:
    """Number of heads whose rows are reordered; None where nothing is."""
    return heads.get(layer.rpartition(".")[2]) if architecture in PERMUTED else None


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
