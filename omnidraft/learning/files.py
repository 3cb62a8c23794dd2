"""Files that are either the old ones or the new ones, whatever is killed in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Write `path` through a temporary neighbour: flushed to disk, then renamed over it, then the folder flushed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        flush_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def flush_folder(path: Path) -> None:
    """Make renames inside a folder durable; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
