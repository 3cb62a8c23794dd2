"""A plain Llama GGUF opened for reading its metadata and weights. Knows nothing of what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.errors import ModelError, SettingsError
from omnidraft.storage.files import reason

LAYER_TENSORS = (
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down",
)  # fmt: skip


def open_gguf(path: Path) -> GGUFReader:
    """A reader on the file's memory map; ModelError if the file is missing, truncated or no GGUF."""
    try:
        return GGUFReader(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {reason(error)}.") from error
    except (ValueError, IndexError, KeyError, TypeError) as error:  # what the reader raises on damaged bytes
        raise ModelError(f"{path} is no complete GGUF file.") from error


class LlamaFile:
    """Metadata and weights of a GGUF of llama.cpp's `llama` architecture without biases, experts or rope factors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        reader = open_gguf(path)
        self.metadata = reader.fields
        if self.get("general.architecture") != "llama" or self.get("general.type", "model") != "model":
            raise ModelError(f"{path} is not a model of the Llama architecture; only those can be expanded.")
        self.tensors = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}
        self.tied = "output" not in self.tensors
        self.name = self.get("general.name", path.stem)
        self.epsilon = float(self.get("llama.attention.layer_norm_rms_epsilon"))
        self.shape = self._read_shape()
        self._check_tensors()

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value; ModelError if it is missing and no default is given."""
        field = self.metadata.get(key)
        if field is not None:
            return field.contents()
        if default is None:
            raise ModelError(f"{self.path} lacks the metadata entry {key}.")
        return default

    def weight(self, name: str) -> np.ndarray:
        """The weights of `name` (without ".weight"), float32, (rows, columns) or (length,)."""
        return dequantize(self.tensors[name].data, self.tensors[name].tensor_type)

    @property
    def fits_f16(self) -> bool:
        """Whether F16 holds the matrices exactly."""
        return all(t.tensor_type == GGMLQuantizationType.F16 for t in self.tensors.values() if len(t.shape) == 2)

    def _read_shape(self) -> Shape:
        width, heads = self.get("llama.embedding_length"), self.get("llama.attention.head_count")
        head_dim = self.get("llama.attention.key_length", width // heads)
        rotated = self.get("llama.rope.dimension_count", head_dim)
        if rotated != head_dim or self.get("llama.attention.value_length", head_dim) != head_dim:
            raise ModelError(f"{self.path} rotates only a part of each head, or has keys and values of unequal length.")
        try:
            return Shape(
                self.name, width, self.get("llama.block_count"), heads,
                self.get("llama.attention.head_count_kv", heads), head_dim, self.get("llama.feed_forward_length"),
                len(self.metadata["tokenizer.ggml.tokens"].data),
            )  # fmt: skip
        except (KeyError, SettingsError) as error:
            raise ModelError(f"{self.path} has a shape that cannot be expanded: {error}") from error

    def _check_tensors(self) -> None:
        known = {"token_embd", "output_norm"} | ({"output"} if not self.tied else set())
        known |= {f"blk.{layer}.{kind}" for layer in range(self.shape.layers) for kind in LAYER_TENSORS}
        if known != set(self.tensors):
            odd = sorted(known ^ set(self.tensors))[0]
            raise ModelError(f"{self.path} is not a plain Llama model: tensor {odd} is missing or not expected.")
