"""What was found out once and holds for as long as its key is the same, which names all that it depends on.

Kept in this process, and in a JSON file of the data home's cache where one is known; that may be deleted at any time.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from omnidraft.errors import StorageError
from omnidraft.storage.files import read_object, write_atomically

log = logging.getLogger("omnidraft.storage")
_KEPT = 1000
T = TypeVar("T")


class Known(Generic[T]):
    """By key. name: of the file; usable: whether what the file says can be such a thing."""

    def __init__(self, name: str, usable: Callable[[Any], bool]) -> None:
        self._name, self._usable = name, usable
        self._folder: Path | None = None
        self._found: dict[str, T] = {}
        self._told = False  # what is wrong with it, once
        self._lock = threading.Lock()

    def keep_in(self, folder: Path) -> None:
        """Keep it in this folder from now on, and take up what is there."""
        with self._lock:
            if folder != self._folder:
                self._folder = folder
                self._found = {**self._read(), **self._found}

    def get(self, key: str) -> T | None:
        return self._found.get(key)

    def all(self) -> dict[str, T]:
        """By key, also what other programs have put there since."""
        with self._lock:
            self._found |= self._read()
            return dict(self._found)

    def put(self, key: str, found: T) -> None:
        """The oldest goes where there are very many."""
        with self._lock:
            self._found |= {**self._read(), key: found}
            while len(self._found) > _KEPT:
                del self._found[next(iter(self._found))]
            if self._folder is not None:
                with suppress(StorageError):  # it is found out again the next time then
                    write_atomically(self._folder / self._name, json.dumps(self._found).encode())

    def _read(self) -> dict[str, T]:
        file = self._folder / self._name if self._folder is not None else None
        if file is None or not file.is_file():
            return {}
        found = read_object(file)
        kept = {key: value for key, value in found.items() if self._usable(value)}
        if (not found or len(kept) < len(found)) and not self._told:
            self._told = True
            log.warning("%s, or some of it, cannot be used; it is found out again.", file)
        return kept
