"""How much memory a model will take: an estimate from its file's own numbers, no model is opened."""

from __future__ import annotations

from omnidraft.backends.gguf_file import ModelInfo
from omnidraft.config import ModelSettings

# Bytes per number of the KV cache; quantized blocks of 32 carry a 2-byte scale.
KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}


def context_of(model: ModelInfo, settings: ModelSettings) -> int:
    """The context length it would be loaded with."""
    trained = model.n_ctx_train or settings.n_ctx or 4096
    return min(settings.n_ctx, trained) if settings.n_ctx else trained


def estimate(model: ModelInfo, settings: ModelSettings) -> int:
    """Bytes: the weights, the KV cache of the chosen context, and the logits and activations of one batch.

    KV cache: keys and values of every layer, kv_heads x (width / heads) numbers a token.
    """
    head = model.width // model.heads if model.heads else model.width
    cache = 2 * model.layers * model.kv_heads * head * context_of(model, settings) * KV_BYTES[settings.kv_type]
    batch = min(settings.n_batch, 512) * (8 * model.width + 4 * model.heads) * 4 + 64 * model.vocabulary_size * 4
    return int(model.file_size + cache + batch)
