"""Reads the header of a GGUF file: its metadata and where its tensors lie, never their data.

The `gguf` package turns every vocabulary entry into arrays (9 s for a 128k vocabulary); this walks over long arrays
and keeps only their length (30 ms). It knows the container and nothing of models, vocabularies or llama.cpp's needs.
"""

from __future__ import annotations

import mmap
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from omnidraft.errors import ModelError
from omnidraft.storage.files import while_unchanged

_U32 = struct.Struct("<I").unpack_from
_U64 = struct.Struct("<Q").unpack_from
_SCALARS = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?")))
_SCALARS.update({10: "Q", 11: "q", 12: "d"})
FLOAT32 = 6
_STRING, _ARRAY = 8, 9
_KEEP = 1024  # arrays up to this length are kept as lists (per-layer settings), longer ones as ArrayShape


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Stands for an array too long to keep."""

    length: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` as GGUF stores it (fastest dimension first); `offset` in bytes behind `GgufHeader.data_start`."""

    shape: tuple[int, ...]
    type: int
    offset: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """`metadata` holds scalars, strings, short lists, and `ArrayShape` for long arrays; `kinds` their types in GGUF."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Tensor]
    data_start: int
    file_size: int
    kinds: dict[str, int] = field(default_factory=dict)


def read_header(path: str | Path) -> GgufHeader:
    """The header of `path`; ModelError in one sentence if it is missing, unreadable, not GGUF or cut short.

    Answers are remembered until the file's size or time of change differs, so asking again costs a `stat`.
    """
    path = Path(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; check the path to the model file.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ModelError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if path.is_dir():
        if (path / "config.json").is_file():
            raise ModelError(
                f"{path} is a Hugging Face folder, which can only be a target; a drafter must be a GGUF file."
            )
        raise ModelError(f"{path} is a folder; name the .gguf file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{path} is no file that could be read; choose a model in GGUF format.")
    return _read(path)


@while_unchanged(512)  # vocabularies take a moment to walk through
def _read(path: Path) -> GgufHeader:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic != b"GGUF":
                what = "is empty" if not magic else "is not a GGUF file (it does not start with the letters GGUF)"
                raise ModelError(f"{path} {what}; choose a model in GGUF format.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(path, data)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}).") from None
    except (struct.error, OverflowError, IndexError, UnicodeDecodeError, MemoryError):
        raise ModelError(f"{path} is cut short or damaged inside its header; download or copy it again.") from None


def _parse(path: Path, data: mmap.mmap) -> GgufHeader:
    version = _U32(data, 4)[0]
    if version & 0xFFFF == 0:
        raise ModelError(f"{path} is a GGUF file for big-endian machines, which are not supported.")
    if version not in (2, 3):
        raise ModelError(f"{path} uses GGUF version {version}; versions 2 and 3 are supported, so convert it again.")
    tensor_count, pair_count = struct.unpack_from("<QQ", data, 8)
    position, metadata, kinds = 24, {}, {}
    for _ in range(pair_count):
        key, position = _string(data, position)
        kinds[key] = kind = _U32(data, position)[0]
        metadata[key], position = _value(data, position + 4, kind)
    tensors = {}
    for _ in range(tensor_count):
        name, position = _string(data, position)
        dimensions = _U32(data, position)[0]
        if not 1 <= dimensions <= 4:
            raise IndexError
        *shape, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", data, position + 4)
        tensors[name] = Tensor(tuple(shape), kind, offset)
        position += 4 + 8 * dimensions + 12
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise IndexError
    return GgufHeader(path, metadata, tensors, -(-position // alignment) * alignment, len(data), kinds)


def _string(data: mmap.mmap, position: int) -> tuple[str, int]:
    start = position + 8
    end = start + _U64(data, position)[0]
    if end > len(data):
        raise IndexError
    return data[start:end].decode("utf-8"), end


def _value(data: mmap.mmap, position: int, kind: int) -> tuple[Any, int]:
    if kind == _STRING:
        return _string(data, position)
    if kind == _ARRAY:
        return _array(data, position)
    if kind not in _SCALARS:
        raise IndexError
    form = "<" + _SCALARS[kind]
    return struct.unpack_from(form, data, position)[0], position + struct.calcsize(form)


def _array(data: mmap.mmap, position: int) -> tuple[Any, int]:
    kind, length = struct.unpack_from("<IQ", data, position)
    position += 12
    if kind in _SCALARS:
        form = f"<{length}{_SCALARS[kind]}"
        end = position + length * struct.calcsize("<" + _SCALARS[kind])
        if end > len(data):
            raise IndexError
        kept = list(struct.unpack_from(form, data, position)) if length <= _KEEP else ArrayShape(length)
        return kept, end
    if kind != _STRING:
        raise IndexError  # arrays of arrays: none of the keys read here has one
    if length > _KEEP:
        for _ in range(length):  # the lengths chain the entries: this walk is most of the time spent
            position += 8 + _U64(data, position)[0]
        return ArrayShape(length), position
    entries = []
    for _ in range(length):
        entry, position = _string(data, position)
        entries.append(entry)
    return entries, position


# What makes no sense and is reckoned with before llama.cpp sees it. What ends llama.cpp itself is found by opening the
# file in a child first (trial.py).


_COUNTS = {"block_count": (1, 512), "context_length": (8, 1 << 31), "attention.head_count_kv": (0, 1 << 16)}


def check_settings(header: GgufHeader, architecture: str) -> None:
    """ModelError for counts that no model has; some are given for each layer."""
    for name, (low, high) in _COUNTS.items():
        key = f"{architecture}.{name}"
        value = header.metadata.get(key, low)
        counts = value if isinstance(value, list) else [value]
        if not all(isinstance(count, int) and low <= count <= high for count in counts):
            shown = value if len(str(value)) <= 60 else f"{str(value)[:60]}..."
            raise ModelError(f"{header.path} is damaged: {key} is {shown}; download or copy it again.")


_AS_FLOATS: dict[GGMLQuantizationType, type] = {
    GGMLQuantizationType.F32: np.float32,
    GGMLQuantizationType.F16: np.float16,
}


@dataclass(frozen=True)
class MappedTensor:
    """shape: (rows, columns) or (length,); data: its rows as the file stores them, floats or (rows, bytes)."""

    shape: tuple[int, ...]
    type: GGMLQuantizationType
    data: np.ndarray

    @property
    def is_plain(self) -> bool:
        """Whether the file stores floats that NumPy knows."""
        return self.type in _AS_FLOATS

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
        if kind in _AS_FLOATS:
            data = data.view(_AS_FLOATS[kind]).reshape(*outer, columns)
        else:
            data = data.reshape(*outer, columns // block * size)
        found[name] = MappedTensor((*outer, columns), kind, data)
    return found
