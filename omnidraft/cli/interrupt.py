"""Ctrl+C without damage: it waits until an import is done, and asks for a stop while a model computes.

Knows nothing of commands, and imports nothing but Python's own: it is in place before any library is loaded.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Where an exception would be lost or turned into another one: modules half executed, callbacks of the C library.
_NOT_NOW = (
    "_frozen_importlib",
    "importlib._bootstrap",
    "omnidraft.vocab.llama_vocab",
    "omnidraft.backends.llama.devices",
)
_AGAIN = 0.05  # seconds until it is tried again


@contextmanager
def between_imports() -> Iterator[None]:
    """Meanwhile Ctrl+C raises KeyboardInterrupt where it can be met, and waits where a library would swallow it."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _raise_between_imports)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _raise_between_imports(_number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_globals.get("__name__") in _NOT_NOW or frame.f_code.co_name == "__del__":
            again = threading.Timer(_AGAIN, _interrupt_main)
            again.daemon = True  # it keeps no program from ending
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_main() -> None:
    """As Ctrl+C does: whatever the main thread waits for ends, which `raise_signal` in another thread leaves alone."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def terminated() -> Iterator[None]:
    """Meanwhile SIGTERM raises KeyboardInterrupt, too, so that what was started is ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
