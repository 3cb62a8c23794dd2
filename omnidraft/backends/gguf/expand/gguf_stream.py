"""Writes a GGUF tensor by tensor without ever holding the whole model, and appears only when complete.

Knows the file format's order and alignment, nothing of the model inside.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
from gguf import GGUFValueType, GGUFWriter, ReaderField

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


class StreamWriter:
    """Collects metadata and tensor descriptions, then writes the tensors in that order."""

    def __init__(self, architecture: str) -> None:
        self._writer = GGUFWriter(None, architecture)
        self._tensors: list[tuple[str, np.dtype, int]] = []

    def copy(self, fields: dict[str, ReaderField], skip: Iterable[str] = ()) -> None:
        """Take over another file's metadata, except the keys in `skip`."""
        left_out = {"general.architecture", *skip}
        for key, field in fields.items():
            if not key.startswith("GGUF.") and key not in left_out:
                inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
                self._writer.add_key_value(key, field.contents(), field.types[0], inner)

    def put(self, key: str, value: object, kind: GGUFValueType, inner: GGUFValueType | None = None) -> None:
        self._writer.add_key_value(key, value, kind, inner)

    def describe(self, name: str, shape: tuple[int, ...], dtype: type) -> None:
        """Announce a tensor of shape (rows, columns) or (length,), float32 or float16."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._writer.add_tensor_info(name, shape, np.dtype(dtype), size)
        self._tensors.append((name, np.dtype(dtype), size))

    @property
    def size(self) -> int:
        """Bytes of all announced tensors."""
        return sum(size for _, _, size in self._tensors)

    def write(
        self, path: Path, contents: Callable[[str], Iterable[np.ndarray]], progress: Callable[[float], None]
    ) -> None:
        """Write everything; `contents(name)` yields a tensor's rows in pieces; `progress` gets the fraction written."""
        try:
            self._write_head(path)
            with path.open("ab") as file:
                written = 0
                for name, dtype, size in self._tensors:
                    self._writer.write_padding(file, file.tell())
                    end = file.tell() + size
                    for piece in contents(name):
                        file.write(np.ascontiguousarray(piece, dtype=dtype).data)
                        written += piece.size * dtype.itemsize
                        progress(written / self.size)
                    if file.tell() != end:
                        raise AssertionError(f"{name}: {file.tell() - end + size} bytes written, {size} announced")
                self._writer.write_padding(file, file.tell())
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be written: {reason(error)}.") from error

    def _write_head(self, path: Path) -> None:
        self._writer.write_header_to_file(path)
        self._writer.write_kv_data_to_file()
        self._writer.write_ti_data_to_file()
        self._writer.close()
