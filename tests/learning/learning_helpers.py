"""Material the learning tests share."""

from __future__ import annotations

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
from gguf import GGUFReader

from omnidraft.decoding.events import Candidates
from omnidraft.learning.adapters import gguf as adapters
from omnidraft.learning.material.record import Record, gather_candidates

_QUIET = llama_cpp.llama_log_callback(lambda level, text, data: None)


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


def llama_logits(model: Path, ids: list[int], adapter: Path | None = None) -> np.ndarray:
    """llama.cpp's logits behind every one of `ids`, (n, V) float32, through its C interface directly."""
    llama_cpp.llama_backend_init()
    llama_cpp.llama_log_set(_QUIET, ctypes.c_void_p(0))
    loaded = llama_cpp.llama_model_load_from_file(str(model).encode(), llama_cpp.llama_model_default_params())
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = len(ids)
    settings.n_threads = settings.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(loaded, settings)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    lora = None
    try:
        if adapter is not None:
            lora = llama_cpp.llama_adapter_lora_init(loaded, str(adapter).encode())
            assert lora, "llama.cpp refused the adapter"
            adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(lora)
            assert llama_cpp.llama_set_adapters_lora(context, adapters, 1, (ctypes.c_float * 1)(1.0)) == 0
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, True
        assert llama_cpp.llama_decode(context, batch) == 0
        size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(loaded))
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(ids), size)).copy()
    finally:
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(context)
        if lora:
            llama_cpp.llama_adapter_lora_free(lora)
        llama_cpp.llama_model_free(loaded)


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
