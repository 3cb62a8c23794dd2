"""One run of a target's process: started, talked to, ended. What it answers is target_process.py's business.

The process leads a group of its own, so that Ctrl+C in the terminal reaches only the app, which then ends it in order.
It ends by itself when its stdin closes, so none stays behind whatever becomes of the app.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from time import monotonic
from typing import IO, NamedTuple, TypeVar

import numpy as np

from omnidraft.processes.children import LineChild
from omnidraft.storage.trial import WITHIN

# The messages between a target's process and whoever asks it: a few numbers, token ids or a text, as JSON. Rows of
# logits do not travel: they lie in memory that both processes map, behind the flag that interrupts a pass.


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
    """held: how many tokens the cache holds now; seconds: what the work itself took. LOADING: text says what is being
    done, seconds which share of it is."""

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


_GLANCE = 0.05  # seconds between looks for an interruption while a pass runs


class TargetLink:
    """`asked`: what the process shall load. rows: of logits, in memory shared with it."""

    def __init__(self, asked: dict, max_rows: int, columns: int) -> None:
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        self._shared = SharedRows(max_rows, columns)
        self._child: LineChild | None = None  # not if it could not be started
        asked = {**asked, "max_rows": max_rows, "rows": self._shared.place}
        try:
            with theirs:
                self._child = LineChild(
                    "omnidraft.backends.remote.target_child", environment={WITHIN: "1"}, heard=False,
                    descriptors=(theirs.fileno(), int(asked["rows"])) if sys.platform != "win32" else (),
                )  # fmt: skip
                if sys.platform == "win32":
                    asked["share"] = theirs.share(self._child.pid).hex()
                else:
                    asked["descriptor"] = theirs.fileno()
                self._child.say(json.dumps(asked) + "\n")  # what to load, and where to answer
        except BaseException:
            self.end()
            raise
        self._shared.handed_over()
        self.rows = self._shared.rows

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def interrupt(self, on: bool) -> None:
        """Set or clear the flag that ends a pass. Takes no lock."""
        self._shared.flag[0] = on

    def send(self, request: Request) -> None:
        """Gone if the process has ended."""
        send(self._connection, request)

    def await_reply(self, seconds: float, left: Callable[[], bool] = bool) -> Reply | None:
        """The next reply; None once `left` says that nobody waits for it. TimeoutError after `seconds`, Gone."""
        end = monotonic() + seconds
        while not self._connection.poll(_GLANCE):
            if monotonic() > end:
                raise TimeoutError
            if left():
                return None
        return receive(self._connection, Reply)

    def reply(self, seconds: float) -> Reply:
        """The next reply, waited for whatever happens. TimeoutError after `seconds`, Gone."""
        found = self.await_reply(seconds)
        assert found is not None
        return found

    def kill(self) -> None:
        """End the process without waiting for it; takes no lock."""
        if self._child is not None:
            with suppress(OSError):
                self._child.process.kill()

    def ended(self) -> tuple[int, str]:
        """(exit code, the end of what it wrote to stderr) of a process that has closed its side."""
        assert self._child is not None
        return self._child.ended(), self._child.last_words()

    def end(self) -> None:
        """Kill the process and let go of all that belongs to it; returns when its memory is free."""
        if self._child is not None:
            self._child.kill()
            self._child.ended()
        self._connection.close()
        self._shared.handed_over()
