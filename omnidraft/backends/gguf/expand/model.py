"""Writes the large model of a small one: metadata, vocabulary padding, weights, quantization.

Quantized files have one type for all matrices, the embedding and the output layer included, so that a small model and
its expansion are quantized alike: llama.cpp's mixtures choose types by shape and layer number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import numpy as np
from gguf import GGUFValueType, TokenType

from omnidraft.backends.gguf.expand.fill import Filler
from omnidraft.backends.gguf.expand.gguf_stream import StreamWriter, need_space, replacing, scratch
from omnidraft.backends.gguf.expand.layout import Layout
from omnidraft.backends.gguf.expand.padding import correct_norms
from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.backends.gguf.expand.source import LlamaFile
from omnidraft.backends.llama.runtime import begin_call, failure_reason
from omnidraft.errors import ModelError, SettingsError

FORMAT_VERSION = 1  # raise it whenever the same source and shape would give other bytes
FLOATS = {"F32": (np.float32, 0), "F16": (np.float16, 1)}  # -> (NumPy type, general.file_type)
TYPES = {
    "Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
    "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0,
    "Q4_K_M": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
}
DTYPES = (*FLOATS, *TYPES)
MIXED = "Q4_K_M"  # what most people download: some tensors in Q6_K
BUFFER = 1 << 28  # bytes of a tensor held at once: an embedding of 128,256 rows takes 1 GB and more in float32
BYTES_PER_WEIGHT = {"F32": 4.0, "F16": 2.0, "Q8_0": 34 / 32, "Q4_0": 18 / 32, "Q4_K_M": 0.62}

Progress = Callable[[float], None]


def expand_model(
    source: Path, out: Path, shape: Shape, dtype: str, seed: int = 0, progress: Progress | None = None
) -> Path:
    """Write the model in `source` at the larger `shape` to `out`, atomically, and return `out`.

    `dtype` is one of DTYPES. F32 and F16 keep the small model's function; Q8_0 and Q4_0 that of the small model
    through `quantize_model`. `seed` draws the filler weights. `progress` is called with the fraction done.
    Raises ModelError if the source is no plain Llama model or does not fit, StorageError without the disk space.
    """
    if dtype not in DTYPES:
        raise SettingsError(f"Unknown weight type {dtype!r}; known types: {', '.join(DTYPES)}.")
    small = LlamaFile(source)
    layout = Layout(small.shape, shape)
    report = progress or (lambda fraction: None)
    if dtype in FLOATS:
        with replacing(out) as temporary:
            _write_floats(small, layout, temporary, dtype, seed, report)
        return out
    with scratch(out) as floats:
        exact = "F16" if small.fits_f16 else "F32"
        _write_floats(small, layout, floats, exact, seed, lambda fraction: report(0.6 * fraction), then=dtype)
        quantize_model(floats, out, dtype)
    report(1.0)
    return out


def _write_floats(
    small: LlamaFile, layout: Layout, path: Path, dtype: str, seed: int, progress: Progress, then: str | None = None
) -> None:
    """Write the F32 or F16 file; `then` is the type it will be quantized to beside it, for the space check."""
    norms = correct_norms(layout.small.width, layout.large.width, small.epsilon)
    filler = Filler(small, layout, norms, seed)
    writer = StreamWriter("llama")
    _put_metadata(writer, small, layout, norms.epsilon, FLOATS[dtype][1], seed)
    for name, dims in filler.shapes().items():
        # Norms stay F32 in every type, as llama.cpp keeps them.
        writer.describe(f"{name}.weight", dims, FLOATS[dtype][0] if len(dims) == 2 else np.float32)
    extra = writer.size * BYTES_PER_WEIGHT[then] / BYTES_PER_WEIGHT[dtype] if then else 0
    need_space(path.parent, int(writer.size + extra))
    writer.write(path, lambda name: filler.tensor(name.removesuffix(".weight")), progress)


def _put_metadata(
    writer: StreamWriter, small: LlamaFile, layout: Layout, epsilon: float, file_type: int, seed: int
) -> None:
    """The small model's metadata with the new shape, the padded vocabulary, and where the file comes from."""
    large, uint = layout.large, GGUFValueType.UINT32
    gain = layout.rotation_gain * float(small.get("llama.rope.scaling.attn_factor", 1.0))
    entries: dict[str, tuple] = {
        "general.name": (f"{small.name} expanded to {large.name}", GGUFValueType.STRING),
        "general.file_type": (file_type, uint),
        "llama.embedding_length": (large.width, uint),
        "llama.block_count": (large.layers, uint),
        "llama.feed_forward_length": (large.ffn, uint),
        "llama.attention.head_count": (large.heads, uint),
        "llama.attention.head_count_kv": (large.kv_heads, uint),
        "llama.attention.key_length": (large.head_dim, uint),
        "llama.attention.value_length": (large.head_dim, uint),
        "llama.attention.layer_norm_rms_epsilon": (epsilon, GGUFValueType.FLOAT32),
        "llama.rope.dimension_count": (large.head_dim, uint),
        "llama.vocab_size": (large.vocab, uint),
        "omnidraft.expanded.source": (small.name, GGUFValueType.STRING),
        "omnidraft.expanded.shape": (large.key, GGUFValueType.STRING),
        "omnidraft.expanded.seed": (seed, uint),
        "omnidraft.expanded.version": (FORMAT_VERSION, uint),
    }
    if gain != 1.0:
        entries["llama.rope.scaling.attn_factor"] = (gain, GGUFValueType.FLOAT32)
    entries |= _padded_vocabulary(small, large.vocab)
    writer.copy(small.metadata, skip=(*entries, "general.size_label"))
    for key, value in entries.items():
        writer.put(key, *value)


def _padded_vocabulary(small: LlamaFile, size: int) -> dict[str, tuple]:
    """Token arrays filled up to `size`.

    A padding token's text holds a space, which no byte-level or SentencePiece token text does, so no text can become
    one; the type says that it is unused.
    """
    missing = range(small.shape.vocab, size)
    array, i32 = GGUFValueType.ARRAY, GGUFValueType.INT32
    entries = {
        "tokenizer.ggml.tokens": (
            [*small.get("tokenizer.ggml.tokens"), *(f"<unused {token}>" for token in missing)],
            array, GGUFValueType.STRING,
        ),
        "tokenizer.ggml.token_type": (
            [*small.get("tokenizer.ggml.token_type"), *(int(TokenType.UNUSED) for _ in missing)], array, i32,
        ),
    }  # fmt: skip
    if "tokenizer.ggml.scores" in small.metadata:
        scores = small.get("tokenizer.ggml.scores")
        lowest = min(scores) - 1.0
        entries["tokenizer.ggml.scores"] = ([*scores, *(lowest for _ in missing)], array, GGUFValueType.FLOAT32)
    return entries


def quantize_model(source: Path, out: Path, dtype: str) -> Path:
    """Write `source` (F32 or F16) as `dtype` (one of TYPES) to `out`; norms stay F32. ModelError if it fails."""
    options = llama_cpp.llama_model_quantize_default_params()
    options.nthread = os.cpu_count() or 1
    options.ftype = TYPES[dtype]
    options.pure = dtype != MIXED
    options.max_buf_size = BUFFER
    with replacing(out) as temporary:
        begin_call()
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(temporary), options) != 0:
            raise ModelError(f"llama.cpp could not quantize {source} to {dtype}: {failure_reason()}.")
    return out
