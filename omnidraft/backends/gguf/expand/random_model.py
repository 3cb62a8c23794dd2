"""A model of the same shape and vocabulary as another, with random weights: a drafter that has learned nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType

from omnidraft.backends.gguf.expand.fill import chunks, generator
from omnidraft.backends.gguf.expand.gguf_stream import StreamWriter, need_space, replacing
from omnidraft.backends.gguf.expand.source import LlamaFile


def random_model(out: Path, like: Path, seed: int = 0) -> Path:
    """Write a GGUF with `like`'s metadata and tokenizer, its matrices drawn anew; returns `out`.

    Each matrix is drawn with its original's standard deviation, each norm is its original's mean, so that numbers keep
    their usual size. For one at a larger shape, expand the result. F16 and F32 stay; other types become F32.
    """
    source = LlamaFile(like)
    writer = StreamWriter("llama")
    writer.copy(source.metadata, skip=("general.name",))
    writer.put("general.name", f"{source.name} with random weights", GGUFValueType.STRING)
    for name, tensor in source.tensors.items():
        half = tensor.tensor_type == GGMLQuantizationType.F16
        writer.describe(f"{name}.weight", tuple(reversed(tensor.shape.tolist())), np.float16 if half else np.float32)
    need_space(out.parent, writer.size)
    with replacing(out) as temporary:
        writer.write(temporary, lambda name: _draw(source, name.removesuffix(".weight"), seed), lambda fraction: None)
    return out


def _draw(source: LlamaFile, name: str, seed: int) -> Iterator[np.ndarray]:
    weights = source.weight(name)
    if weights.ndim == 1:
        yield np.full_like(weights, weights.mean())
        return
    random, spread = generator(seed, name), float(weights.std())
    for part in chunks(*weights.shape):
        yield spread * random.standard_normal((part.stop - part.start, weights.shape[1]), dtype=np.float32)
