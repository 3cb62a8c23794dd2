"""Material the learning tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader

from omnidraft.decoding.events import Candidates
from omnidraft.learning.adapters import gguf as adapters
from omnidraft.learning.material.record import Record, gather_candidates


def random_record(
    rng: np.random.Generator, tokens: int, k: int = 48, target_vocabulary: int = 150_000, **fields
) -> Record:
    """A record of peaked random distributions, as a language model's are."""
    captured = []
    for _ in range(tokens):
        logits = np.sort(rng.normal(0, rng.uniform(0.5, 5), k))[::-1]
        logp = logits - np.log(np.exp(logits).sum()) + np.log1p(-0.02)
        captured.append(
            Candidates(rng.choice(target_vocabulary, k, replace=False).astype(np.int32), logp.astype(np.float32), 0.02)
        )
    counts, ids, logprobs, rest = gather_candidates(captured)
    spans = rng.integers(0, 4, tokens)
    defaults = {
        "chat": "c1",
        "target": "t",
        "vocabulary": "v",
        "prompt": rng.integers(0, 32000, 40),
        "targets": rng.integers(0, target_vocabulary, tokens),
        "pieces": rng.integers(0, 32000, int(spans.sum())),
        "spans": spans,
        "counts": counts,
        "ids": ids,
        "logprobs": logprobs,
        "rest": rest,
        "task": "math",
        "time": 12.5,
    }
    return Record(**{**defaults, **fields})


def read_adapter(path: Path, drafter: Path) -> tuple[dict[str, np.ndarray], float]:
    """(weights in torch's order as float32, alpha) of an adapter `write_adapter` wrote."""
    architecture, heads = adapters._shape(drafter)
    reader = GGUFReader(path)
    alpha = float(reader.fields["adapter.lora.alpha"].contents())
    weights = {}
    for tensor in reader.tensors:
        layer, _, part = tensor.name.replace(".weight.lora", ".lora").rpartition(".")
        matrix = np.array(tensor.data, np.float32)
        weights[f"{layer}.{part}"] = (
            _from_gguf(matrix, adapters._heads_of(layer, architecture, heads)) if part == "lora_b" else matrix
        )
    return weights, alpha


def _from_gguf(rows: np.ndarray, heads: int | None) -> np.ndarray:
    if heads is None:
        return rows
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(rows.shape)
