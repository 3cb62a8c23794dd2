"""Expands a small model's LoRA adapter: zeros around its matrices, in the places the expanded model uses."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, ReaderTensor
from gguf.quants import dequantize

from omnidraft.backends.gguf.expand.gguf_stream import StreamWriter, replacing
from omnidraft.backends.gguf.expand.layout import Layout
from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.backends.gguf.expand.source import LlamaFile, open_gguf
from omnidraft.errors import ModelError

NAME = re.compile(r"(output|blk\.\d+\.(attn_(?:q|k|v|output)|ffn_(?:gate|up|down)))\.weight\.lora_([ab])")


def expand_adapter(source: Path, out: Path, model_source: Path, shape: Shape) -> Path:
    """Write the adapter `source` of the small model `model_source` for that model expanded to `shape`.

    With delta W = B A: A (rank, inputs) gets zero columns, B (outputs, rank) zero rows; rank, alpha and types stay.
    Raises ModelError for a file that is no such adapter. The token embedding cannot carry one in llama.cpp.
    """
    small = LlamaFile(model_source)
    layout = Layout(small.shape, shape)
    reader = open_gguf(source)
    kind = reader.fields.get("adapter.type")
    if kind is None or kind.contents() != "lora":
        raise ModelError(f"{source} is no LoRA adapter.")
    writer = StreamWriter("llama")
    writer.copy(reader.fields)
    grown = {tensor.name: _grow(tensor, layout, small, source) for tensor in reader.tensors}
    for name, (array, dtype) in grown.items():
        writer.describe(name, array.shape, dtype)
    with replacing(out) as temporary:
        writer.write(temporary, lambda name: [grown[name][0]], lambda fraction: None)
    return out


def _grow(tensor: ReaderTensor, layout: Layout, small: LlamaFile, path: Path) -> tuple[np.ndarray, type]:
    """The tensor's values at the large shape and the type to store them in."""
    match = NAME.fullmatch(tensor.name)
    if not match or match[1] not in small.tensors:
        raise ModelError(f"{path}: {tensor.name} is nothing an adapter of {small.name} may change.")
    target = match[1]
    rows, columns = layout.output() if target == "output" else layout.matrix(match[2])
    values = dequantize(tensor.data, tensor.tensor_type)
    outputs, inputs = small.weight(target).shape
    if values.ndim != 2 or (values.shape[1] != inputs if match[3] == "a" else values.shape[0] != outputs):
        raise ModelError(f"{path}: {tensor.name} has shape {values.shape}, which does not fit {small.name}.")
    dtype = np.float16 if tensor.tensor_type == GGMLQuantizationType.F16 else np.float32
    if match[3] == "a":
        return np.where(columns >= 0, values[:, np.maximum(columns, 0)], 0).astype(dtype), dtype
    return np.where((rows >= 0)[:, None], values[np.maximum(rows, 0)], 0).astype(dtype), dtype
