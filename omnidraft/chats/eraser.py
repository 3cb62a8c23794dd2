"""Cleaning up some quiet seconds later, in a thread: nobody who deletes something waits until a file is rewritten.

What is to be cleaned, and how, is the store's business; it notes in the file that it must be done, in case of a kill.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

QUIET_SECONDS = 2.0  # deletions in a row are cleaned up behind at once


class Eraser:
    """`clean` is called from a thread of its own, some time behind the last `soon`, at the latest by `finish`."""

    def __init__(self, clean: Callable[[], None]) -> None:
        self._clean = clean
        self._changed = threading.Condition()
        self._due: float | None = None
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        with self._changed:
            self._due = time.monotonic() + QUIET_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="eraser", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Have done now what was to be done soon."""
        with self._changed:
            thread = self._thread
            if self._due is not None:
                self._due = 0.0
                self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while self._waited():
            self._clean()

    def _waited(self) -> bool:
        """Wait until it is time; False if nothing is to be done any more."""
        with self._changed:
            if self._due is None:
                self._thread = None
                return False
            while (left := self._due - time.monotonic()) > 0:
                self._changed.wait(left)
            self._due = None
            return True
