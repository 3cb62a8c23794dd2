"""Files and folders for temporary use: they go with the work, or, if that was killed, when the next of its kind begins.

Whoever is at one holds a lock on it, so neither a clock nor a process's number decides what is left over.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A lock on a file, for one program or for several that share it: released by the system when its holder ends.


class FileLock:
    """`acquire` says whether this program has it; the file itself stays and means nothing."""

    def __init__(self, file: Path) -> None:
        self.file = Path(file)
        self._handle: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """shared: with others that share it, but with nobody who has it alone. On Windows nobody is kept out then."""
        if self._handle is not None:
            return True
        self.file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle, shared)
        except OSError:
            os.close(handle)
            return False
        if not os.fstat(handle).st_nlink:  # who had it removed the file
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            with suppress(OSError):
                os.close(self._handle)
            self._handle = None


def _lock(handle: int, shared: bool) -> None:
    """OSError if another program has it."""
    if sys.platform == "win32":
        import msvcrt

        if not shared:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


LOCK = "lock"  # in each such folder, held by the process it belongs to
SUFFIX = ".tmp"  # of files
_TRIES = 50  # a sweep may take what is just being made, often among many; where nothing can be locked nobody sweeps


class Scratch:
    """A folder among the files for temporary use, in memory while an encrypted data home is open (see `Vault`), or in
    `place`. With `with` it is gone behind the block."""

    def __init__(self, prefix: str, place: Path | None = None) -> None:
        self.path, lock = _locked(lambda: Path(tempfile.mkdtemp(prefix=prefix, dir=place)), LOCK)
        self._end = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Harmless when repeated."""
        self._end()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def sweep(folder: Path, prefix: str) -> None:
    """Remove the folders of this user that killed processes have left there."""
    for path in list(folder.glob(f"{prefix}*")):
        with suppress(OSError):
            foreign = hasattr(os, "getuid") and path.lstat().st_uid != os.getuid()
            if foreign or not path.is_dir() or path.is_symlink():
                continue
            lock = FileLock(path / LOCK)
            if lock.acquire():
                _remove(path, lock, os.getpid())


@contextmanager
def replacing(path: Path, suffix: str = SUFFIX) -> Iterator[Path]:
    """An empty file in the folder of `path`, which takes its place when the block ends well: who is killed, or whose
    power is cut, leaves the old file or the new one. Else it goes, as do those that were left there. OSError."""
    sweep_files(path.parent, f".{glob.escape(path.name)}.*{suffix}")
    temporary, lock = _locked(lambda: _empty(path, suffix))
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        if sys.platform == "win32":
            lock.release()
        os.replace(temporary, path)
    finally:
        _remove(temporary, lock, os.getpid())
    sync_folder(path.parent)


def sweep_files(folder: Path, pattern: str) -> None:
    """Remove the files of these names that nobody is at."""
    for path in list(folder.glob(pattern)):
        lock = FileLock(path)
        with suppress(OSError):
            if lock.acquire():
                _remove(path, lock, os.getpid())


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, on systems that can open folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _locked(make: Callable[[], Path], inside: str = "") -> tuple[Path, FileLock]:
    """What was made, with its lock, or that of the file of this name in it."""
    for _ in range(_TRIES):
        made = make()
        lock = FileLock(made / inside)
        with suppress(OSError):  # a sweep takes the folder while the file in it is made
            if lock.acquire(shared=not inside):  # on Windows nobody could write to a file that is locked for one alone
                return made, lock
        shutil.rmtree(made, ignore_errors=True)
        with suppress(OSError):
            made.unlink()
    made = make()
    return made, FileLock(made / inside)


def _empty(path: Path, suffix: str) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=suffix, dir=path.parent)
    os.close(handle)
    return Path(name)


def _remove(path: Path, lock: FileLock, process: int) -> None:
    """A file, or a folder with all in it; not in a fork of the process. The lock goes last, or somebody might come
    between; on Windows nothing that is open can be removed."""
    if sys.platform == "win32":
        lock.release()
    if os.getpid() == process:
        with suppress(OSError):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    lock.release()
