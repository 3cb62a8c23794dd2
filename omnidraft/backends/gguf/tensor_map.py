"""The tensors of a GGUF on its memory map, without the vocabulary's entries being read (see `header`)."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from omnidraft.backends.gguf.header import read_header

_PLAIN: dict[GGMLQuantizationType, type] = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}


@dataclass(frozen=True)
class MappedTensor:
    """shape: (rows, columns) or (length,); data: its rows as the file stores them, floats or (rows, bytes)."""

    shape: tuple[int, ...]
    type: GGMLQuantizationType
    data: np.ndarray

    @property
    def is_plain(self) -> bool:
        """Whether the file stores floats that NumPy knows."""
        return self.type in _PLAIN

    def rows(self, which: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Some of its rows, float32."""
        part = self.data[which]
        return part.astype(np.float32) if self.is_plain else dequantize(part, self.type)


def permuted(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows reordered within each head from (first halves, second halves) of the rotated pairs to pair by pair."""
    rows, columns = array.shape
    return array.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def let_go(tensors: Mapping[str, MappedTensor]) -> None:
    """What was read of the file need not stay in memory, where the system can be told so."""
    for tensor in tensors.values():
        data = tensor.data
        while isinstance(data.base, np.ndarray):
            data = data.base
        if isinstance(data.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            data.base.madvise(mmap.MADV_DONTNEED)
            return  # all are of one map


def map_tensors(path: Path, mode: Literal["r", "r+"] = "r") -> dict[str, MappedTensor]:
    """All tensors by name, to be written in place with "r+". ModelError for what is no GGUF."""
    header, found = read_header(path), {}
    everything = np.memmap(path, np.uint8, mode)
    for name, tensor in header.tensors.items():
        kind = GGMLQuantizationType(tensor.type)
        block, size = GGML_QUANT_SIZES[kind]
        *outer, columns = tensor.shape[::-1]
        start = header.data_start + tensor.offset
        data = everything[start : start + tensor.elements // block * size]
        if kind in _PLAIN:
            data = data.view(_PLAIN[kind]).reshape(*outer, columns)
        else:
            data = data.reshape(*outer, columns // block * size)
        found[name] = MappedTensor((*outer, columns), kind, data)
    return found
