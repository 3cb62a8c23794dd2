"""llama.cpp's log, kept off stderr: the latest error lines are remembered so that a failure can be explained.

The only module that sets the library's log callback, of which a process has one. Knows nothing of models.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from llama_cpp import llama_cpp as api

_ERROR_LEVEL = 4  # ggml_log_level: 1 debug, 2 info, 3 warning, 4 error, 5 continues the line before
_MOST = 64  # lines remembered of an operation


class _Own(threading.local):
    """What this thread's operation said: lines since its `begin`, and where that was in `_errors`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.since = 0


class _Line(NamedTuple):
    number: int
    text: str


_own = _Own()
_errors: deque[_Line] = deque(maxlen=_MOST)  # of all threads: llama.cpp computes in threads of its own
_numbers = itertools.count(1)
_recording: list[str] | None = None


@api.llama_log_callback
def _remember_errors(level: int, text: bytes, _user_data: object) -> None:
    if _recording is not None and text:
        _recording.append(text.decode("utf-8", "replace"))
    if level == _ERROR_LEVEL and text:
        line = text.decode("utf-8", "replace").strip()
        _errors.append(_Line(next(_numbers), line))
        if len(_own.lines) < _MOST:
            _own.lines.append(line)


def silence() -> None:
    """Send llama.cpp's log to this module instead of stderr; again each time, lest another callback be in its place."""
    api.llama_log_set(_remember_errors, ctypes.c_void_p(0))


def keep_log_of(set_callback: Callable[..., None]) -> None:
    """Send the log of a library that comes with llama.cpp here as well. set_callback: how that library is told."""
    set_callback(_remember_errors, ctypes.c_void_p(0))


def begin() -> None:
    """Call before an operation whose failure `first_error` shall explain."""
    silence()
    _own.lines, _own.since = [], next(_numbers)


def first_error() -> str:
    """The first error line of this thread since its `begin`, without the C++ function it came from; may be empty.

    Lines of other threads explain only what this one has no line for: llama.cpp computes in threads of its own, but
    models may also be loaded in several threads at once, and then push out each other's lines.
    """
    others = [line.text for line in list(_errors) if line.number > _own.since]
    for line in [*_own.lines, *others]:
        function, _, rest = line.partition(": ")
        reason = (rest if "_" in function else line).removeprefix("error loading model: ")
        if reason:
            return reason.rstrip(".")
    return ""


@contextmanager
def recording() -> Iterator[list[str]]:
    """Every piece of log written meanwhile, whatever its level: sizes of buffers are told nowhere else."""
    global _recording
    silence()
    _recording = []
    try:
        yield _recording
    finally:
        _recording = None
