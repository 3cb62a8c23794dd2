"""Small-file safety: write a file whole or not at all, and set a damaged one aside without losing it.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import tempfile
import time
from pathlib import Path

from omnidraft.errors import StorageError

LEFTOVER_SECONDS = 3600  # a temporary file this old belongs to a process that was killed


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data` (mode 0600): a kill or a power cut leaves the old content or the new, never a mixture.

    Raises StorageError if the folder is missing or cannot be written.
    """
    target = Path(os.path.realpath(path))  # a settings file may be a link into someone's dotfiles; keep the link
    try:
        _remove_leftovers(target)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {reason(error)}.") from error


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


def move_aside(path: Path) -> Path | None:
    """Rename `path` to the first free `<name>.damaged-N` and return that; None if there is no such file."""
    if not os.path.lexists(path):
        return None
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    try:
        os.rename(path, aside)
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be moved aside: {reason(error)}.") from error
    return aside


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut, on systems that can open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reason(error: OSError) -> str:
    """The system's words for what went wrong, without error number and path."""
    return (error.strerror or str(error)).rstrip(".").lower()


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > LEFTOVER_SECONDS:
                leftover.unlink()
