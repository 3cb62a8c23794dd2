"""llama.cpp's log, kept off stderr: the last error lines are remembered so that a failure can be explained.

Knows nothing of models. The callback is process-wide in llama.cpp, so it is installed once and stays.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from llama_cpp import llama_cpp as api

_ERROR_LEVEL = 4  # ggml_log_level: 1 debug, 2 info, 3 warning, 4 error, 5 continues the line before
_errors: deque[str] = deque(maxlen=8)
_installed = False
_recording: list[str] | None = None


@api.llama_log_callback
def _remember_errors(level: int, text: bytes, _user_data: object) -> None:
    if _recording is not None and text:
        _recording.append(text.decode("utf-8", "replace"))
    if level == _ERROR_LEVEL and text:
        _errors.append(text.decode("utf-8", "replace").strip())


def silence() -> None:
    """Send llama.cpp's log to this module instead of stderr."""
    global _installed
    if not _installed:
        api.llama_log_set(_remember_errors, ctypes.c_void_p(0))
        _installed = True


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


def forget_errors() -> None:
    """Call before an operation whose failure `first_error` shall explain."""
    _errors.clear()


def first_error() -> str:
    """The first error line since `forget_errors`, without the name of the C++ function it came from; may be empty."""
    for line in _errors:
        reason = line.split(": ", 1)[-1] if "_" in line.split(": ", 1)[0] else line
        if reason:
            return reason.rstrip(".")
    return ""
