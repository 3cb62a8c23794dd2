"""Small-file safety: write a file whole or not at all, and set a damaged one aside without losing it; and what tells
files apart: whether one is as it was (`mark`), and which one it is, wherever it lies (`sampled`).

Files of an encrypted data home are sealed as they are written and opened as they are read. Knows nothing of what the
files hold.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from omnidraft.errors import StorageError
from omnidraft.storage.scratch import replacing, sync_folder
from omnidraft.storage.sealed import seal, sealed_bytes, unseal, unsealed_bytes
from omnidraft.storage.vault import key_of, vault_of

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
_SAMPLES, _SAMPLE = 32, 1 << 16


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` (mode 0600): a kill or a power cut leaves the old content or the new, never a mixture.

    Raises StorageError if the folder is missing or cannot be written.
    """
    target = Path(os.path.realpath(path))  # a settings file may be a link into someone's dotfiles; keep the link
    try:
        with replacing(target) as temporary:
            temporary.write_bytes(as_stored(path, data))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {reason(error)}.") from error


def as_stored(path: Path, data: bytes) -> bytes:
    """What to write to `path` so that `read` gives `data`."""
    key = key_of(path)
    return data if key is None else sealed_bytes(data, key)


def read(path: Path) -> bytes:
    """What a file holds, opened if it is sealed. OSError if it cannot be read, StorageError if it cannot be opened."""
    data, key = Path(path).read_bytes(), key_of(path)
    try:
        return data if key is None else unsealed_bytes(data, key)
    except StorageError as error:
        raise StorageError(f"{path} {error}.") from None


@contextlib.contextmanager
def readable(path: Path | str) -> Iterator[Path]:
    """The file itself, or a copy in memory of one that is sealed, for libraries that open files by name; it is gone
    behind the block, whoever has it open. StorageError if it cannot be opened."""
    path = Path(path)
    vault, key = vault_of(path), key_of(path)
    if vault is None or key is None:
        yield path
        return
    with vault.scratch() as folder:
        copy = folder / path.name
        try:
            with open(path, "rb") as source, open(copy, "wb") as target:
                unseal(source, target, key)
        except StorageError as error:
            raise StorageError(f"{path} {error}.") from None
        except OSError as error:
            raise StorageError(f"{path} cannot be opened in memory: {reason(error)}.") from error
        yield copy


def put_in(made: Path, path: Path) -> None:
    """Store the content of a readable file at `path`, sealed where that is encrypted, down to the disk."""
    key = key_of(path)
    with open(made, "rb") as source, open(path, "wb") as target:
        if key is None:
            shutil.copyfileobj(source, target)
        else:
            seal(source, target, key)
        target.flush()
        os.fsync(target.fileno())


def erase(path: Path) -> None:
    """Overwrite a file or a folder's files with zeros and remove it; links are only removed. StorageError."""
    try:
        inside = () if path.is_symlink() else path.rglob("*")
        for file in [p for p in (path, *inside) if p.is_file() and not p.is_symlink()]:
            _overwrite(file)
        remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be removed: {reason(error)}.") from error


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it. OSError."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def real(path: Path) -> Path:
    """Where a path leads; one that runs in a circle of links is told as it is (`Path.resolve` raises there)."""
    return Path(os.path.realpath(path))


def mark(path: Path) -> str:
    """Where a file lies, and what it was when it was written last. OSError."""
    status = path.stat()
    return f"{real(path)}:{status.st_size}:{status.st_mtime_ns}"


def while_unchanged(most: int) -> Callable[[Callable[[Path], T]], Callable[[Path], T]]:
    """What was read of a file is remembered, of the last `most` files, until its `mark` is another."""

    def remembering(read: Callable[[Path], T]) -> Callable[[Path], T]:
        known = lru_cache(most)(lambda path, _mark: read(path))
        return lambda path: known(path, mark(path))

    return remembering


def sampled(path: Path) -> str:
    """Tells a large file from every other one: its size, beginning, end and samples from between, hashed. OSError."""
    size = path.stat().st_size
    found = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for i in range(_SAMPLES + 1):
            file.seek(max(0, size - _SAMPLE) * i // _SAMPLES)
            found.update(file.read(_SAMPLE))
    return found.hexdigest()


def keep_private() -> None:
    """What this process and its children make from now on is its owner's alone: files 0600, folders 0700."""
    os.umask(0o077)


def make_private(folder: Path) -> None:
    """Take from others what they may do with a folder and all in it; links are passed over."""
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(OSError):
            mode = path.lstat().st_mode
            if mode & 0o077 and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                path.chmod(stat.S_IMODE(mode) & 0o700)


def is_mine(path: Path) -> bool:
    """Whether nobody writes there but who runs this and the system's administrator. OSError. Windows has no such bits;
    there a home's folder is its owner's."""
    if not hasattr(os, "getuid"):
        return True
    status = path.stat()
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o022


LOG_SUFFIXES = ("-wal", "-shm", "-journal")  # what SQLite keeps beside an open database


def move_aside(path: Path) -> Path | None:
    """Rename `path`, and what SQLite keeps beside it, to the first free `<name>.damaged-N` and return that; None if
    there is no such file."""
    if not os.path.lexists(path):
        return None
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    try:
        os.rename(path, aside)
        for suffix in LOG_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.rename(path.with_name(path.name + suffix), aside.with_name(aside.name + suffix))
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be moved aside: {reason(error)}.") from error
    return aside


def reason(error: OSError) -> str:
    """The system's words for what went wrong, without error number and path."""
    return (error.strerror or str(error)).rstrip(".").lower()


def _overwrite(file: Path) -> None:
    with open(file, "r+b") as data:
        left = os.fstat(data.fileno()).st_size
        while left > 0:
            left -= data.write(bytes(min(left, 1 << 20)))
        data.flush()
        os.fsync(data.fileno())


# JSON from a file that anybody may have written: whatever is wrong with it is a ValueError.


def read_json(text: str | bytes) -> Any:
    """The value; ValueError also where it is nested deeper than Python goes, which json tells in another way."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


_kinds: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def read_as(cls: type[T], values: Any) -> T:
    """A dataclass's object, of a JSON object that this or another version of the program wrote: names it does not know
    are left out. ValueError, TypeError or AttributeError where something is missing or of another kind than annotated;
    numbers must be such as count and fit into a table."""
    kinds = _kinds(cls)
    known = {name: value for name, value in values.items() if name in kinds}
    made = cls(**{name: tuple(v) if get_origin(kinds[name]) is tuple else v for name, v in known.items()})
    if not all(_is_of(kind, getattr(made, name)) for name, kind in kinds.items()):
        raise ValueError("a value is of another kind")
    return made


def _is_of(kind: Any, value: Any) -> bool:
    origin, within = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return any(_is_of(one, value) for one in within)
    if origin is Literal:
        return value in within
    if origin is dict:
        return isinstance(value, dict) and all(_is_of(within[1], each) for each in value.values())
    if origin is tuple:
        return all(_is_of(within[0], each) for each in value)
    if kind in (int, float):
        return type(value) in (int, kind) and abs(value) < 2**53
    return isinstance(value, origin or kind)


def read_object(file: Path) -> dict[str, Any]:
    """The object in a file; {} if the file is missing or holds none."""
    try:
        content = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


# Arrays as an .npz, never a pickle. NumPy is loaded by who needs it: the training process first sets its limits.


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """By name. StorageError if the file is missing or damaged."""
    import numpy as np

    try:
        with np.load(io.BytesIO(read(path)), allow_pickle=False) as data:
            return dict(data)
    except (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, OverflowError, MemoryError,
            zipfile.BadZipFile, zlib.error) as error:  # fmt: skip
        raise StorageError(f"{path} cannot be read: {error}") from error


def pack_arrays(arrays: Mapping[str, np.ndarray], *, compressed: bool = False) -> bytes:
    """What `read_arrays` reads."""
    import numpy as np

    data, named = io.BytesIO(), dict[str, Any](arrays)
    (np.savez_compressed if compressed else np.savez)(data, **named)
    return data.getvalue()
