"""One run of a target's process: started, talked to, ended. What it answers is target_process.py's business.

The process leads a group of its own, so that Ctrl+C in the terminal reaches only the app, which then ends it in order.
It ends by itself when its stdin closes, so none stays behind whatever becomes of the app.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from time import monotonic

from omnidraft.backends.remote.target_messages import Reply, Request, SharedRows, receive, send
from omnidraft.processes.line_child import LineChild
from omnidraft.storage.trial import WITHIN

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
