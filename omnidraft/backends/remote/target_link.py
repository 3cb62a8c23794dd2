"""One run of a target's process: started, talked to, ended; and what that process does. target_process.py asks.

Requests go to its stdin as lines of JSON, replies come from its stdout as such, each with its rows of logits behind it:
beside a pass over a network what they take is nothing. The process leads a group of its own, so that Ctrl+C in the
terminal reaches only the app, which then ends it in order. It ends by itself when its stdin closes, so none stays
behind whatever becomes of the app.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.backends.llama.devices import Placement, notice_lost_peers, register_worker
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.llama.runtime import ggml
from omnidraft.errors import OmniDraftError
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.processes.progress import Progress, watched
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.trial import WITHIN

DONE, REFUSED, ABORTED, DEFECT, OPENED, LOADING = 0, 1, 2, 3, 4, 5
_INTERRUPT = "null"  # a line that ends the pass that is running


class Gone(Exception):
    """The process has ended."""


class Request(NamedTuple):
    """Keep so many tokens, read `ids` behind them, and give `rows` rows of logits."""

    keep: int
    rows: int
    ids: list[int]


class Reply(NamedTuple):
    """held: how many tokens the cache holds now; seconds: what the work itself took; rows: how many follow, then they
    themselves. LOADING: text says what is being done, seconds which share of it is."""

    how: int
    held: int = 0
    seconds: float = 0.0
    text: str = ""
    rows: Any = 0


_GLANCE = 0.02  # seconds between looks for an interruption while a pass runs


class TargetLink:
    """`asked`: what the process shall load; columns: of a row of logits."""

    def __init__(self, asked: dict, columns: int) -> None:
        self._columns = columns
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._child = LineChild("omnidraft.backends.remote.target_link", environment={WITHIN: "1"})
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        self._child.say(json.dumps(asked) + "\n")

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, request: Request) -> None:
        self._child.say(json.dumps(request) + "\n")

    def interrupt(self) -> None:
        """End the pass that is running. By the thread that sends: lines of two would mix."""
        self._child.say(f"{_INTERRUPT}\n")

    def reply(self, seconds: float, left: Callable[[], bool] = bool) -> Reply:
        """The next reply. Aborted once `left` says that nobody waits for it, TimeoutError after `seconds`, Gone."""
        end = time.monotonic() + seconds
        while True:
            try:
                reply = self._replies.get(timeout=_GLANCE)
                break
            except queue.Empty:
                if time.monotonic() > end:
                    raise TimeoutError from None
                if left():
                    raise Aborted from None
        if reply is None:
            raise Gone
        return reply

    def _hear(self) -> None:
        stdout: BinaryIO = self._child.process.stdout.buffer  # type: ignore[union-attr]
        with suppress(ValueError):  # in the middle of a line, if it was ended
            while line := stdout.readline():
                reply = Reply(*json.loads(line))
                data = bytearray(4 * reply.rows * self._columns)  # which may be written to, as rows are
                if stdout.readinto(data) < len(data):  # type: ignore[attr-defined]
                    break
                self._replies.put(reply._replace(rows=np.frombuffer(data, np.float32).reshape(-1, self._columns)))
        self._replies.put(None)

    def kill(self) -> None:
        """End the process without waiting for it; takes no lock."""
        with suppress(OSError):
            self._child.process.kill()

    def ended(self) -> tuple[int, str]:
        """(exit code, the end of what it wrote to stderr) of a process that has closed its side."""
        return self._child.ended(), self._child.last_words()

    def end(self) -> None:
        """Kill the process and let go of all that belongs to it; returns when its memory is free."""
        self._child.kill()
        self._hearing.join()
        self._child.ended()


# What that process does: its first line says what to load. llama.cpp aborts the process when a worker is lost, and here
# that costs nothing but this process. When stdin closes, the app is gone and this process ends at once, also in the
# middle of a pass. Knows nothing of chats, and opens no file but the model's.


_TOLD = ("n_ctx", "n_batch", "max_rows", "can_rewind", "cannot_rewind_reason", "rewind_method", "widest", "notices")
_LOOKS = 0.5  # seconds between looks for new connections while the model loads
_TELLS = 0.2  # seconds between two words about how far loading has come


class _App:
    """Who asks. requests: in the order in which they came."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = json.loads(sys.stdin.readline())
        self.requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self.target: LlamaTarget | None = None
        self._out = open(os.dup(1), "wb")  # noqa: SIM115 - as long as the process
        os.dup2(2, 1)  # what libraries print is no reply
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        for line in sys.stdin:
            if line.strip() != _INTERRUPT:
                self.requests.put(Request(*json.loads(line)))
            elif self.target is not None:
                self.target.abort()
        os._exit(0)

    def tell(self, reply: Reply, rows: np.ndarray | None = None) -> None:
        given = np.ascontiguousarray(rows if rows is not None else np.empty((0, 0), np.float32))
        self._out.write(json.dumps(reply._replace(rows=len(given))).encode() + b"\n")
        self._out.write(given.data)
        self._out.flush()


def main() -> int:
    app = _App()
    system.leave_no_core()
    try:
        target = app.target = _open(app)
    except OmniDraftError as error:
        app.tell(Reply(REFUSED, text=str(error)))
        return 1
    app.tell(Reply(OPENED, text=json.dumps({name: getattr(target, name) for name in _TOLD})))
    while True:
        app.tell(*_answer(target, app.requests.get()))


def _open(app: _App) -> LlamaTarget:
    asked, placement = app.asked, None
    loading = threading.Event()
    if asked["workers"]:
        threading.Thread(target=_watch_connections, args=(loading,), daemon=True).start()
        devices = [device for worker in asked["workers"] for device in register_worker(worker)]
        handles = [device.handle for device in devices]
        placement = Placement(handles, asked["layers"], ggml("backend_cpu_buffer_type")())
    with watched(_Telling(Path(asked["path"]), app)):
        target = LlamaTarget.open(asked["path"], ModelSettings(**asked["settings"]), placement=placement)
    loading.set()
    notice_lost_peers()
    return target


def _watch_connections(loaded: threading.Event) -> None:
    while not loaded.wait(_LOOKS):
        notice_lost_peers()


class _Telling(Progress):
    """Tells the app how far loading has come; llama.cpp asks for every tensor."""

    def __init__(self, path: Path, app: _App) -> None:
        super().__init__(path)
        self._app, self._told = app, 0.0

    def go_on(self) -> bool:
        if time.monotonic() - self._told >= _TELLS:
            self._told = time.monotonic()
            self._app.tell(Reply(LOADING, seconds=self.share or 0.0, text=self.doing))
        return True


def _answer(target: LlamaTarget, request: Request) -> tuple[Reply, np.ndarray | None]:
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
    return Reply(how, len(target.tokens), time.perf_counter() - start, text), found


if __name__ == "__main__":
    code = main()
    os._exit(code)  # the library's threads wait on connections
