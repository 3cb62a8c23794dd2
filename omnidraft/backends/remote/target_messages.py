"""The messages between a target's process and whoever asks it: a few numbers, token ids or a text, as JSON.

Rows of logits do not travel: they lie in memory that both processes map, behind the flag that interrupts a pass.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import uuid
from multiprocessing.connection import Connection
from typing import IO, NamedTuple, TypeVar

import numpy as np

DONE, REFUSED, ABORTED, DEFECT, OPENED, LOADING = 0, 1, 2, 3, 4, 5
_FLAG = 64  # bytes before the rows; the first two are the flag
_LARGEST = 1 << 24  # bytes of a message that make sense


class Gone(Exception):
    """The other process closed the connection or ended."""


class Request(NamedTuple):
    """Keep so many tokens, read `ids` behind them, and give `rows` rows of logits."""

    keep: int
    rows: int
    ids: list[int]


class Reply(NamedTuple):
    """held: how many tokens the cache holds now; seconds: what the work itself took."""

    how: int
    held: int = 0
    seconds: float = 0.0
    text: str = ""


Message = TypeVar("Message", Request, Reply)


def send(connection: Connection, message: Request | Reply) -> None:
    """Gone if the other process has ended."""
    try:
        connection.send_bytes(json.dumps(message).encode())
    except OSError as error:
        raise Gone from error


def receive(connection: Connection, kind: type[Message]) -> Message:
    """The next message, waited for; Gone."""
    try:
        return kind(*json.loads(connection.recv_bytes(_LARGEST)))
    except (EOFError, OSError) as error:
        raise Gone from error


class SharedRows:
    """`rows` rows of `columns` float32 and a flag, in memory that two processes map. No file of it has a name.

    place: what the other process finds it by: a file descriptor that it inherits, on Windows a tag.
    """

    _file: IO[bytes] | None = None

    def __init__(self, rows: int, columns: int, place: int | str | None = None) -> None:
        size = _FLAG + 4 * rows * columns
        self.place = place if place is not None else self._make(size)
        if sys.platform == "win32":
            self._map = mmap.mmap(-1, size, tagname=str(self.place))
        else:
            self._map = mmap.mmap(int(self.place), size)
        self.rows = np.frombuffer(self._map, np.float32, rows * columns, _FLAG).reshape(rows, columns)
        self.flag = np.frombuffer(self._map, np.uint8, 2)

    def _make(self, size: int) -> int | str:
        if sys.platform == "win32":
            return f"omnidraft-{uuid.uuid4().hex}"
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - until the other process has it
        self._file.truncate(size)
        return self._file.fileno()

    def handed_over(self) -> None:
        """The other process was started: the descriptor is not needed here any more."""
        if self._file is not None:
            self._file.close()
