"""A folder for what a piece of work needs on disk meanwhile: it goes with the work, or when the next program begins."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

from omnidraft.storage.file_lock import FileLock

LOCK = "lock"  # in each such folder, held by the process it belongs to
_MAKING_SECONDS = 10.0  # a folder as young as this may not be locked yet


class Scratch:
    """Among the files for temporary use: in memory while an encrypted data home is open (see `Vault`)."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = FileLock(self.path / LOCK)
        self._lock.acquire()
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        self._lock.release()
        self._end()


def sweep(folder: Path, prefix: str) -> None:
    """Remove what killed processes of this user have left there: nobody holds the lock."""
    for path in list(folder.glob(f"{prefix}*")):
        with suppress(OSError):
            status, lock = path.lstat(), FileLock(path / LOCK)
            foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
            if foreign or not path.is_dir() or path.is_symlink() or time.time() - status.st_mtime < _MAKING_SECONDS:
                continue
            if lock.acquire():
                lock.release()
                shutil.rmtree(path)
