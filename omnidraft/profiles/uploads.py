"""Where files that a browser sends lie until they are read: in the data home, so that they go with it.

A file goes as soon as it was read, the rest when everything is forgotten and when the app starts. Knows nothing of what
is in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.storage.files import erase
from omnidraft.storage.paths import DataHome, make_folder

_DIGEST = re.compile("[0-9a-f]{64}")  # Gradio keeps an upload in a folder named after its content


def uploaded(home: DataHome, path: str) -> Path:
    """The upload that a page names. StorageError for anything else on this machine."""
    found = Path(path).resolve()
    if not found.is_relative_to(home.uploads.resolve()):
        raise StorageError("This file was not sent by a page.")
    return found


@contextmanager
def taken(upload: Path) -> Iterator[Path]:
    """An upload to read; afterwards it is gone, whatever was in it, with the folder that held it alone.

    Anything but a plain file stays: a request may name a folder instead.
    """
    try:
        yield upload
    finally:
        if upload.is_file():
            with suppress(StorageError):
                erase(upload)
        if _DIGEST.fullmatch(upload.parent.name):
            with suppress(OSError):
                upload.parent.rmdir()


def clear_uploads(home: DataHome) -> None:
    """Remove, unreadably, what was sent and never read. StorageError if something cannot be removed."""
    make_folder(home.uploads)
    for path in sorted(home.uploads.iterdir()):
        erase(path)
