"""A lock on a file, for one program or for several that share it: released by the system when its holder ends."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


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
