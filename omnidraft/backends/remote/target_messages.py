"""The messages between a target's process and whoever asks it: a few numbers, token ids or a text behind them.

Rows of logits do not travel: they lie in memory that both processes map, behind the flag that interrupts a pass.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np

EXTEND = 1
DONE, REFUSED, ABORTED, DEFECT, OPENED, LOADING = 0, 1, 2, 3, 4, 5
_REQUEST = struct.Struct("<BIII")  # what, tokens to keep, rows wanted, ids that follow
_REPLY = struct.Struct("<BIdI")  # how it went, tokens held, seconds it took, bytes of text that follow
_FLAG = 64  # bytes before the rows; the first two are the flag
_AT_ONCE = 1 << 14  # bytes read at once: a request of a round and more
_LARGEST = 1 << 20  # bytes of a text or ids that make sense


class Gone(Exception):
    """The other process closed the connection or ended."""


@dataclass(frozen=True, slots=True)
class Request:
    what: int
    keep: int
    rows: int = 0
    ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """held: how many tokens the cache holds now; seconds: what the work itself took."""

    how: int
    held: int = 0
    seconds: float = 0.0
    text: str = ""


def send_request(connection: socket.socket, request: Request) -> None:
    ids = np.asarray(request.ids, np.int32).tobytes()
    _send(connection, _REQUEST.pack(request.what, request.keep, request.rows, len(request.ids)) + ids)


def receive_request(connection: socket.socket) -> Request:
    data = _receive(connection, _REQUEST.size)
    what, keep, rows, count = _REQUEST.unpack_from(data)
    data = _complete(connection, data, _REQUEST.size + 4 * count)
    return Request(what, keep, rows, np.frombuffer(data, np.int32, count, _REQUEST.size).tolist())


def send_reply(connection: socket.socket, reply: Reply) -> None:
    text = reply.text.encode("utf-8", "replace")[:_LARGEST]
    _send(connection, _REPLY.pack(reply.how, reply.held, reply.seconds, len(text)) + text)


def receive_reply(connection: socket.socket) -> Reply:
    # Of the process only one message is under way at a time, but while it loads: those are read by their exact size.
    how, held, seconds, length = _REPLY.unpack(_exactly(connection, _REPLY.size))
    text = _exactly(connection, length).decode("utf-8", "replace") if length else ""
    return Reply(how, held, seconds, text)


def _send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError as error:
        raise Gone from error


def _receive(connection: socket.socket, size: int) -> bytes:
    """At least `size` bytes, and all that have come of the one message that is under way."""
    return _complete(connection, _part(connection, _AT_ONCE), size)


def _complete(connection: socket.socket, data: bytes, size: int) -> bytes:
    if size > _LARGEST:
        raise Gone
    while len(data) < size:
        data += _part(connection, size - len(data))
    return data


def _exactly(connection: socket.socket, size: int) -> bytes:
    return _complete(connection, b"", size)


def _part(connection: socket.socket, size: int) -> bytes:
    try:
        part = connection.recv(size)
    except OSError as error:
        raise Gone from error
    if not part:
        raise Gone
    return part


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
