"""An adapter in torch's order as a GGUF LoRA llama.cpp loads.

llama.cpp stores the query and key rows of the llama architecture in another order (rotary halves interleaved); an
adapter's B matrix has the same rows and is reordered alike. It knows nothing of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.gguf.tensor_map import permuted
from omnidraft.errors import ModelError

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
