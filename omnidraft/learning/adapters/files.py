"""What an adapter store does to its files: writes them to disk for sure, removes them unreadably, sets them aside.

Names beginning with a dot are no versions: `.new-PID...` is being written or removed by that process and swept once
it is gone; `.damaged-NAME` was found damaged and is kept for whoever wants to look. It knows nothing of what versions
mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from omnidraft.storage.files import as_stored, erase, put_in, sync_folder
from omnidraft.storage.vault import vault_of

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
    """Remove a version unreadably: a forgotten conversation's traces are in the weights. It is no version from the
    first moment on, whenever this is killed."""
    doomed = unfinished_folder(version.parent, version.name)
    with suppress(OSError):  # a file of it is open, on Windows
        os.rename(version, doomed)
        version = doomed
    erase(version)


def place(path: Path, content: bytes | Path) -> None:
    """Write bytes, or move a file, to `path`, down to the disk."""
    if not isinstance(content, Path):
        path.write_bytes(as_stored(path, content))
    elif vault_of(path) is None:
        os.replace(content, path)
    else:
        put_in(content, path)
        content.unlink()
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)
