"""Which model files this program has loaded, on disk while it has: the next one knows with what it crashed.

A file may pass its trial and still end the program later, with a longer context or an adapter. Python's fault handler
writes into the note when the process dies by a fault of its own, so that a note without such words was left by a kill
or a power cut and is nobody's fault. Knows nothing of models, and of verdicts only whom to tell.
"""

from __future__ import annotations

import faulthandler
import json
import os
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from omnidraft.storage.scratch import FileLock
from omnidraft.storage.trial import TRIALS

_FAULTS = ("Fatal Python error", "Windows fatal exception")
_MOST = 1 << 20  # characters read of a note

Files = tuple[str, str | None]  # a model, and the adapter it is loaded with


class InUse:
    """One note for all that this process has loaded; `who` is whatever loads and lets go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked: set[Path] = set()
        self._held: dict[int, list[Files]] = {}
        self._note: TextIO | None = None
        self._right: FileLock | None = None
        self._handled = False  # whether faults are written into the note

    def look_in(self, folder: Path) -> None:
        """Tell which files programs that ended here crashed with, once."""
        with self._lock:
            if folder in self._looked:
                return
            self._looked.add(folder)
        for note in folder.glob("in-use-*.txt"):
            with suppress(OSError):
                _judge(note)

    def hold(self, who: object, folder: Path, files: list[Files]) -> None:
        """From now on `who` uses these files, and nothing else; none ends the note."""
        with self._lock, suppress(OSError):  # without a note there is only less to know
            self._held[id(who)] = files
            if not files:
                del self._held[id(who)]
            if not self._held:
                self._end()
                return
            if self._note is None:
                self._begin(folder / f"in-use-{os.getpid()}-{uuid.uuid4().hex[:8]}.txt")
            if self._note is not None:
                self._note.seek(0)
                self._note.truncate()
                self._note.write(json.dumps([one for files in self._held.values() for one in files]) + "\n")
                self._note.flush()

    def _begin(self, file: Path) -> None:
        right = FileLock(file)
        if not right.acquire():
            return
        self._note, self._right = file.open("w", encoding="utf-8"), right
        if not faulthandler.is_enabled():
            faulthandler.enable(self._note)
            self._handled = True

    def _end(self) -> None:
        if self._handled:
            faulthandler.disable()
            self._handled = False
        note, right, self._note, self._right = self._note, self._right, None, None
        if note is not None and right is not None:
            note.close()
            right.release()
            os.unlink(note.name)


def _judge(note: Path) -> None:
    """Blame the files of a note that ends in a fault; drop it unless its program still runs."""
    right = FileLock(note)
    if not right.acquire():
        return
    try:
        with note.open(encoding="utf-8", errors="replace") as file:
            first, rest = file.readline(_MOST), file.read(_MOST)
        if any(fault in rest for fault in _FAULTS):
            with suppress(ValueError, TypeError):
                for path, adapter in json.loads(first):
                    TRIALS.blame(path, adapter)
    finally:
        right.release()
        note.unlink(missing_ok=True)


IN_USE = InUse()
