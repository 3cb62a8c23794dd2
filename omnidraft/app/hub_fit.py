"""What the files of a repository would take of the memory, by the formula that refuses a load, before they are fetched.

The first megabytes of one file, its header, say the shape of all: they differ in how the same weights are packed.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from omnidraft.app.hub_files import RemoteFile, RemoteModel, chunks, unreachable
from omnidraft.app.model_memory import context_of
from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.estimate import header_estimate, weight_bytes
from omnidraft.backends.llama.sizes import tensor_bytes
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import make_folder

LOOKS = tuple(size << 20 for size in (1, 4, 8, 16, 32, 64))  # bytes after which the header may be whole
EIGHT_BITS = 1.15  # bytes per parameter: beyond that a file is not better, only larger


@dataclass(frozen=True, slots=True)
class Fit:
    """A model on the Hub and the bytes of memory it takes; None where its header could not be had."""

    model: RemoteModel
    memory: int | None
    parameters: int = 0

    def fits(self, free: int | None) -> bool:
        """By its size alone, where nothing else is known."""
        return free is None or (self.memory or self.model.size) <= free


def fits(models: list[RemoteModel], settings: ModelSettings, cache: Path) -> list[Fit]:
    """Each model with what it takes. Fetches one header, into a file in `cache` that is gone afterwards."""
    whole = [model for model in models if len(model.files) == 1 and not model.convert]
    if not whole:
        return [Fit(model, None) for model in models]
    make_folder(cache)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        path = Path(folder) / "header.gguf"
        if not _fetch_header(min(whole, key=lambda model: model.size).files[0], path):
            return [Fit(model, None) for model in models]
        info = read_info(path)
        known = header_estimate(info, settings, context_of(info, settings))
        # Beside the tensors: the vocabulary as llama.cpp holds it, the cache, and buffers to compute in.
        beside = weight_bytes(info) - sum(tensor_bytes(info).values()) + known.cache + known.compute
        return [Fit(model, model.size + beside, info.parameters) for model in models]


def best(found: list[Fit], free: int | None) -> Fit | None:
    """The one to take: the largest that fits, of those that are packed at all where there are such."""
    fitting = [one for one in found if one.fits(free)]
    packed = [one for one in fitting if one.model.weights <= EIGHT_BITS * one.parameters]
    return max(packed or fitting, key=lambda one: one.model.size, default=None)


def _fetch_header(file: RemoteFile, path: Path) -> bool:
    """Write the file's beginning, as much as its header needs, and leave the rest empty; False if that is no header."""
    looks = iter(sorted({min(size, file.size) for size in LOOKS}))
    look, held = next(looks), bytearray()
    try:
        for chunk in chunks(file):
            held += chunk
            while len(held) >= look:
                if _is_whole(path, held, file.size):
                    return True
                if (following := next(looks, None)) is None:
                    return False
                look = following
    except ModelError:
        raise
    except Exception as error:
        raise unreachable(error) from None
    return False


def _is_whole(path: Path, held: bytes | bytearray, size: int) -> bool:
    """Whether the header ends within what is there. The rest reads as zeros, which could pass for more of it."""
    path = path.with_name(f"{len(held)}.gguf")  # headers are remembered by their file's name
    path.write_bytes(held)
    os.truncate(path, max(size, len(held)))  # sparse: takes no room on the disk
    try:
        whole = read_header(path).data_start <= len(held) and read_info(path).kind == "model"
    except ModelError:
        whole = False
    if whole:
        path.rename(path.with_name("header.gguf"))
    else:
        path.unlink()
    return whole
