"""A target in a process of its own, `python -m omnidraft.backends.remote.target_child`: a JSON line on stdin says what.

llama.cpp aborts the process when a worker is lost, and here that costs nothing but this process. Requests come over a
socket, rows of logits go into shared memory. When stdin closes, the app is gone and this process ends at once, also in
the middle of a pass. Knows nothing of chats, and opens no file but the model's.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.devices import Placement
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.runtime import AbortFlag, ggml
from omnidraft.backends.remote import rpc
from omnidraft.backends.remote.rpc import notice_lost_peers
from omnidraft.backends.remote.target_link import (
    ABORTED,
    DEFECT,
    DONE,
    LOADING,
    OPENED,
    REFUSED,
    Gone,
    Reply,
    Request,
    SharedRows,
    receive,
    send,
)
from omnidraft.errors import OmniDraftError
from omnidraft.processes import system
from omnidraft.processes.progress import Progress, watched
from omnidraft.settings.config import ModelSettings

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
        devices = [device for worker in asked["workers"] for device in rpc.register(worker)]
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
