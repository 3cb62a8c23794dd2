"""Reads the weights of a Hugging Face folder as float32 arrays, one tensor at a time.

safetensors files are mapped, not loaded, and need no torch; pytorch_model.bin is read by torch with `weights_only`, so
that no code in it can run.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.backends.hf.folder import tensor_headers
from omnidraft.errors import ModelError, first_line
from omnidraft.storage.json_text import read_json

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Weights:
    """Names of the tensors, `read`, and `elements`: how many numbers they are together."""

    def __init__(self, parts: list[Path]) -> None:
        self._readers: dict[str, Callable[[], np.ndarray]] = {}
        self.elements = 0
        for part in parts:
            opened, count = _open_safetensors(part) if part.suffix == ".safetensors" else _open_torch(part)
            self._readers |= opened
            self.elements += count

    @property
    def names(self) -> set[str]:
        return set(self._readers)

    def read(self, name: str) -> np.ndarray:
        """The tensor as a float32 array; ModelError if there is none of this name."""
        if name not in self._readers:
            raise ModelError(f"The weights lack {name}; download them again.")
        return self._readers[name]()


def _open_safetensors(file: Path) -> tuple[dict[str, Callable[[], np.ndarray]], int]:
    kinds = {name: (kind, shape) for name, kind, shape in tensor_headers([file])}
    with file.open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    length = struct.unpack("<Q", data[:8])[0]
    header = read_json(data[8 : 8 + length])

    def reader(name: str) -> Callable[[], np.ndarray]:
        kind, shape = kinds[name]
        start, end = header[name]["data_offsets"]

        def read() -> np.ndarray:
            if kind not in _DTYPES:
                raise ModelError(f"{file} stores {name} as {kind}, which cannot be converted.")
            array = np.frombuffer(data, np.uint8, end - start, 8 + length + start).view(_DTYPES[kind]).reshape(shape)
            if kind == "BF16":  # the upper half of a float32
                return (array.astype(np.uint32) << 16).view(np.float32)
            return array.astype(np.float32)

        return read

    return {name: reader(name) for name in kinds}, sum(prod(shape) for _, shape in kinds.values())


def _open_torch(file: Path) -> tuple[dict[str, Callable[[], np.ndarray]], int]:
    import torch

    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    except Exception as error:  # torch raises pickle, zip and runtime errors of many kinds
        raise ModelError(f"{file} could not be read as plain weights: {first_line(error)}.") from None
    return {name: _reader(value) for name, value in tensors.items()}, sum(value.numel() for value in tensors.values())


def _reader(tensor: Any) -> Callable[[], np.ndarray]:
    return lambda: tensor.float().numpy()
