"""A model file that somebody brings, written as it comes and taken among the data home's models when it has passed.

Nothing of it is under its name before it was checked as every unknown file is: its header here, and what the header
does not tell by opening it in a process of its own. A projector takes the name of the model it came with.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from contextlib import suppress
from pathlib import Path

from omnidraft.app.hub import SPARE
from omnidraft.backends.gguf.file import read_info, split_number, usable_info
from omnidraft.errors import ModelError
from omnidraft.format import size as shown_size
from omnidraft.storage.paths import DataHome, make_folder
from omnidraft.storage.trial import TRIALS

_MAGIC = b"GGUF"
_LEFT = 86_400.0  # seconds without a byte after which nobody goes on with a file


class Incoming:
    """One file on its way. size: bytes it will have; beside: the name of the model it came with, "" without one."""

    def __init__(self, home: DataHome, name: str, size: int, beside: str = "") -> None:
        self._home, self._name, self._size, self._beside = home, _plain(name), size, beside and _plain(beside)
        make_folder(home.models)
        _clear(home.models)
        free = shutil.disk_usage(home.models).free
        if free < size + SPARE:
            raise ModelError(f"{name} has {shown_size(size)}, but only {shown_size(free)} are free on the disk.")
        self._part = home.models / f".{uuid.uuid4().hex}.part"

    def write(self, chunk: bytes) -> None:
        """ModelError for what cannot be kept."""
        try:
            with self._part.open("ab") as file:
                if file.tell() + len(chunk) > self._size:
                    raise ModelError(f"{self._name} is larger than it was said to be.")
                file.write(chunk)
        except OSError as error:
            raise ModelError(f"{self._name} cannot be written: {error.strerror}.") from None

    def drop(self) -> None:
        self._part.unlink(missing_ok=True)

    def take(self) -> str:
        """Check it and give it its name; says in a sentence what happened. ModelError if it is refused."""
        try:
            return self._take()
        except ModelError as error:
            raise ModelError(str(error).replace(str(self._part), self._name)) from None
        finally:
            self.drop()

    def _take(self) -> str:
        if not self._part.exists() or self._part.stat().st_size != self._size:
            raise ModelError(f"{self._name} did not arrive whole; try again.")
        with self._part.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ModelError(f"{self._name} is no GGUF file; convert the model first, or fetch a GGUF of it.")
        path = self._home.models / self._checked()
        try:
            os.link(self._part, path)  # unlike a rename it replaces nothing
        except FileExistsError:
            if path.stat().st_size != self._size or _sum(path) != _sum(self._part):
                raise ModelError(f"{path.name} is the name of another file here; rename one of them.") from None
            return f"{path.name} is already there."
        except OSError:  # a file system without links
            os.rename(self._part, path)
        return f"{path.name} is among the models now."

    def _checked(self) -> str:
        """The name it gets. A part of a divided model can only be opened when all are there."""
        if split_number(Path(self._name)) is not None:
            return self._name
        if read_info(self._part).kind == "projector":
            return f"mmproj-{self._beside or self._name.removeprefix('mmproj-')}"
        usable_info(self._part)
        TRIALS.require(self._part)
        return self._name


def _clear(folder: Path) -> None:
    """What a program that was killed left of files on their way."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            if part.stat().st_mtime < time.time() - _LEFT:
                part.unlink()


def _plain(name: str) -> str:
    if Path(name).name != name or name.startswith(".") or not name.isprintable() or len(name.encode()) > 200:
        raise ModelError(f"A model file cannot be called {name[:80]!r}.")
    if not name.lower().endswith(".gguf"):
        raise ModelError(f"{name} is no GGUF file; convert the model first, or fetch a GGUF of it.")
    return name


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
