"""What an adapter store does to its files: writes them to disk for sure, removes them unreadably, sets them aside.

Names beginning with a dot are no versions: `.new-PID...` is being written or removed by that process and swept once
it is gone; `.damaged-NAME` was found damaged and is kept for whoever wants to look. It knows nothing of what versions
mean.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.files import reason, sync_folder

DAMAGED = ".damaged-"
KEPT_ASIDE = 2
_UNFINISHED = re.compile(r"\.new-(\d+)(-\w+)?")


def unfinished_folder(store: Path, name: str = "") -> Path:
    """Where this process writes or removes something."""
    return store / f".new-{os.getpid()}{'-' if name else ''}{name}"


def unfinished(store: Path, alive_too: bool = False) -> Iterator[Path]:
    """What killed processes left; what living ones are at as well, if wanted."""
    for path in list(store.iterdir()) if store.is_dir() else []:
        match = _UNFINISHED.fullmatch(path.name)
        if match and (alive_too or not _alive(int(match[1]))):
            yield path


def damaged(store: Path) -> list[Path]:
    """Versions set aside, in order."""
    return sorted(store.glob(f"{DAMAGED}*")) if store.is_dir() else []


def set_aside(version: Path) -> bool:
    """Give a damaged version's folder a name under which it is none, in files and exports; False if that fails."""
    try:
        os.rename(version, version.with_name(DAMAGED + version.name))
    except OSError:
        return False
    sync_folder(version.parent)
    return True


def discard(version: Path) -> None:
    """Remove a version unreadably. It is no version from the first moment on, whenever this is killed."""
    doomed = unfinished_folder(version.parent, version.name)
    with suppress(OSError):  # a file of it is open, on Windows
        os.rename(version, doomed)
        version = doomed
    erase(version)


def erase(path: Path) -> None:
    """Overwrite a file or a folder's files with zeros and remove it: a forgotten conversation's traces are in the
    weights."""
    try:
        for file in [p for p in (path, *path.rglob("*")) if p.is_file() and not p.is_symlink()]:
            with open(file, "r+b") as data:
                data.write(bytes(os.fstat(data.fileno()).st_size))
                data.flush()
                os.fsync(data.fileno())
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be removed: {reason(error)}.") from error


def place(path: Path, content: bytes | Path) -> None:
    """Write bytes, or move a file, to `path`, down to the disk."""
    if isinstance(content, Path):
        os.replace(content, path)
    else:
        path.write_bytes(content)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)
