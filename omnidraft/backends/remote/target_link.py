"""One run of a target's process: started, talked to, ended; and what that process does. target_process.py asks.

The process leads a group of its own, so that Ctrl+C in the terminal reaches only the app, which then ends it in order.
It ends by itself when its stdin closes, so none stays behind whatever becomes of the app.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.devices import Placement, notice_lost_peers, register_worker
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.runtime import AbortFlag, ggml
from omnidraft.errors import OmniDraftError
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.processes.progress import Progress, watched
from omnidraft.settings.config import ModelSettings
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
                    "omnidraft.backends.remote.target_link", environment={WITHIN: "1"}, heard=False,
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
        end = time.monotonic() + seconds
        while not self._connection.poll(_GLANCE):
            if time.monotonic() > end:
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


# What that process does: a JSON line on stdin says what to load. llama.cpp aborts the process when a worker is lost,
# and here that costs nothing but this process. Requests come over a socket, rows of logits go into shared memory. When
# stdin closes, the app is gone and this process ends at once, also in the middle of a pass. Knows nothing of chats, and
# opens no file but the model's.


_TOLD = ("n_ctx", "n_batch", "can_rewind", "cannot_rewind_reason", "rewind_method", "widest", "notices")
_LOOKS = 0.5  # seconds between looks for new connections while the model loads
_TELLS = 0.2  # seconds between two words about how far loading has come


class _FlagOfTheOther(AbortFlag):
    """Set and cleared by the process that asks: it alone knows which request an interruption was meant for."""

    def set(self) -> None:
        pass

    def clear(self) -> None:
        pass


def main() -> int:
    asked = json.loads(sys.stdin.readline())
    system.leave_no_core()
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    connection = _connect(asked)
    try:
        target = _open(asked, connection)
    except OmniDraftError as error:
        send(connection, Reply(REFUSED, text=str(error)))
        return 1
    rows = SharedRows(target.max_rows, target.vocabulary.size, asked["rows"])
    target.interrupted_by(_FlagOfTheOther((ctypes.c_char * 2).from_buffer(rows.flag.data)))
    send(connection, Reply(OPENED, text=json.dumps({name: getattr(target, name) for name in _TOLD})))
    try:
        while True:
            send(connection, _answer(target, receive(connection, Request), rows))
    except Gone:
        return 0


def _connect(asked: dict) -> Connection:
    if sys.platform == "win32":
        return Connection(socket.fromshare(bytes.fromhex(asked["share"])).detach())
    return Connection(asked["descriptor"])


def _open(asked: dict, connection: Connection) -> LlamaTarget:
    settings = ModelSettings(**asked["settings"])
    loading = threading.Event()
    placement = None
    if asked["workers"]:
        threading.Thread(target=_watch_connections, args=(loading,), daemon=True).start()
        devices = [device for worker in asked["workers"] for device in register_worker(worker)]
        handles = [device.handle for device in devices]
        placement = Placement(handles, asked["layers"], ggml("backend_cpu_buffer_type")())
    with watched(_Telling(Path(asked["path"]), connection)):
        target = LlamaTarget.open(asked["path"], settings, max_rows=asked["max_rows"], placement=placement)
    loading.set()
    notice_lost_peers()
    return target


def _watch_connections(loaded: threading.Event) -> None:
    while not loaded.wait(_LOOKS):
        notice_lost_peers()


class _Telling(Progress):
    """Tells the app how far loading has come; llama.cpp asks for every tensor."""

    def __init__(self, path: Path, connection: Connection) -> None:
        super().__init__(path)
        self._connection = connection
        self._told = 0.0

    def go_on(self) -> bool:
        if time.monotonic() - self._told >= _TELLS:
            self._told = time.monotonic()
            try:
                send(self._connection, Reply(LOADING, seconds=self.share or 0.0, text=self.doing))
            except Gone:
                return False
        return True


def _answer(target: LlamaTarget, request: Request, shared: SharedRows) -> Reply:
    """seconds of the reply: the model's work, without what this process adds to it."""
    start, found = time.perf_counter(), None
    how, text = DONE, ""
    try:
        if request.keep < len(target.tokens):
            target.rewind(request.keep)
        found = target.extend(request.ids, request.rows)
    except Aborted:
        how = ABORTED
    except OmniDraftError as error:
        how, text = REFUSED, str(error)
    except Exception as error:
        how, text = DEFECT, repr(error)
    seconds = time.perf_counter() - start
    if found is not None and request.rows:
        shared.rows[: request.rows] = found
    return Reply(how, len(target.tokens), seconds, text)


def _end_with_the_app() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    code = main()
    os._exit(code)  # the library's threads wait on connections
