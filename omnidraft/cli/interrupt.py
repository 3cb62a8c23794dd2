"""Ctrl+C without damage: while a model computes, it asks for a stop instead of raising in the middle of things."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupts:
    """As a context: the first Ctrl+C calls `stop` (which must take no lock), a second one raises KeyboardInterrupt.

    An exception in the middle of a model's pass would leave its cache and the list of its tokens out of step, and one
    inside a callback of the C library would be lost. Outside the main thread, and where Ctrl+C is ignored, nothing
    changes.
    """

    def __init__(self, stop: Callable[[], None] = lambda: None) -> None:
        self.pending = False
        self._stop = stop
        self._before: Any = None

    def check(self) -> None:
        """Raise what was held back."""
        if self.pending:
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True
        self._stop()
