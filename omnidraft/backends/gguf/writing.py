"""Large files that appear only when they are complete, and room for them on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.storage import scratch as storage
from omnidraft.storage.files import reason

SUFFIX = ".gguf-part"


def scratch(out: Path) -> AbstractContextManager[Path]:
    """An empty temporary file beside `out`, deleted when the block ends. StorageError."""
    return _writing(out, storage.beside)


def replacing(out: Path) -> AbstractContextManager[Path]:
    """As `scratch`, but moved onto `out` when the block ends well, so that `out` is complete or absent."""
    return _writing(out, storage.replacing)


@contextmanager
def _writing(out: Path, how: Callable[[Path, str], AbstractContextManager[Path]]) -> Iterator[Path]:
    """The gigabytes that killed processes left in that folder, for whatever file, go first."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        storage.sweep_files(out.parent, f".*{SUFFIX}")
        with how(out, SUFFIX) as temporary:
            yield temporary
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {reason(error)}.") from error


def need_space(folder: Path, size: int) -> None:
    """StorageError unless `folder` has `size` bytes free, and 5% to spare."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 1.05 * size:
        raise StorageError(f"{folder} has {free / 1e9:.1f} GB free; this needs {1.05 * size / 1e9:.1f} GB.")
