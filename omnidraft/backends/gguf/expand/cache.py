"""Expanded files are built once and kept in the data home's cache folder, named by everything that decides them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from omnidraft.backends.gguf.expand.adapter import expand_adapter
from omnidraft.backends.gguf.expand.model import FORMAT_VERSION, Progress, expand_model
from omnidraft.backends.gguf.expand.shapes import Shape
from omnidraft.errors import ModelError
from omnidraft.storage.files import reason


def _digest(*parts: Path | str | int) -> str:
    """16 hex digits over the files' contents and the other parts."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            try:
                with part.open("rb") as file:
                    total.update(hashlib.file_digest(file, "sha256").digest())
            except OSError as error:
                raise ModelError(f"{part} cannot be read: {reason(error)}.") from error
        else:
            total.update(f"|{part}".encode())
    return total.hexdigest()[:16]


def expanded_path(cache_dir: Path, source: Path, shape: Shape, dtype: str, seed: int = 0) -> Path:
    """Where the expansion of these contents to this shape and type belongs, whether it exists or not."""
    digest = _digest(source, shape.key, dtype, seed, FORMAT_VERSION)
    return cache_dir / "expanded" / f"{source.stem}-{shape.name}-{dtype}-{digest}.gguf"


def expanded_model(
    cache_dir: Path, source: Path, shape: Shape, dtype: str, seed: int = 0, progress: Progress | None = None
) -> Path:
    """The expansion from the cache, built first where it is missing. Errors as `expand_model`."""
    path = expanded_path(cache_dir, source, shape, dtype, seed)
    return path if path.exists() else expand_model(source, path, shape, dtype, seed, progress)


def expanded_adapter(cache_dir: Path, adapter: Path, model_source: Path, shape: Shape) -> Path:
    """The expansion of a small model's adapter from the cache, built first where it is missing."""
    digest = _digest(adapter, model_source, shape.key, FORMAT_VERSION)
    path = cache_dir / "expanded" / f"{adapter.stem}-{shape.name}-{digest}.lora.gguf"
    return path if path.exists() else expand_adapter(adapter, path, model_source, shape)
