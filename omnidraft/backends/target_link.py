"""One run of a target's process: started, talked to, ended. What it answers is target_process.py's business.

The process leads a group of its own, so that Ctrl+C in the terminal reaches only the app, which then ends it in order.
It ends by itself when its stdin closes, so none stays behind whatever becomes of the app.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from omnidraft.backends.child_process import ROOT, quiet_environment
from omnidraft.backends.target_messages import Reply, Request, SharedRows, receive_reply, send_request
from omnidraft.trial import WITHIN

_GLANCE = 0.05  # seconds between looks for an interruption while a pass runs


class TargetLink:
    """`asked`: what the process shall load. rows: of logits, in memory shared with it."""

    def __init__(self, asked: dict, max_rows: int, columns: int) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._shared = SharedRows(max_rows, columns)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process writes to it
        asked = {**asked, "max_rows": max_rows, "rows": self._shared.place}
        try:
            with theirs:
                self._process = self._start(asked["rows"], theirs)
                self._ask(asked, theirs)
        except BaseException:
            self.end()
            raise
        self._shared.handed_over()
        self.rows = self._shared.rows

    def _start(self, rows: int | str, theirs: socket.socket) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {}
        if sys.platform != "win32":
            options = {"pass_fds": (theirs.fileno(), rows), "process_group": 0}
        return subprocess.Popen(
            [sys.executable, "-m", "omnidraft.backends.target_child"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._errors, cwd=ROOT,
            env={**quiet_environment(), WITHIN: "1"}, **options,
        )  # fmt: skip

    def _ask(self, asked: dict, theirs: socket.socket) -> None:
        """Say what to load and where to answer, on the process's stdin."""
        if sys.platform == "win32":
            asked["share"] = theirs.share(self._process.pid).hex()
        else:
            asked["descriptor"] = theirs.fileno()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, which whoever waits for its reply will learn
            self._process.stdin.write((json.dumps(asked) + "\n").encode())
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def interrupt(self, on: bool) -> None:
        """Set or clear the flag that ends a pass. Takes no lock."""
        self._shared.flag[0] = on

    def _readable(self) -> bool:
        """Whether something has come; waits a moment for it."""
        return bool(select.select((self._connection,), (), (), _GLANCE)[0])

    def send(self, request: Request) -> None:
        """Gone if the process has ended."""
        send_request(self._connection, request)

    def await_reply(self, seconds: float, left: Callable[[], bool] = bool) -> Reply | None:
        """The next reply; None once `left` says that nobody waits for it. TimeoutError after `seconds`, Gone."""
        end = monotonic() + seconds
        while not self._readable():
            if monotonic() > end:
                raise TimeoutError
            if left():
                return None
        return receive_reply(self._connection)

    def reply(self, seconds: float) -> Reply:
        """The next reply, waited for whatever happens. TimeoutError after `seconds`, Gone."""
        found = self.await_reply(seconds)
        assert found is not None
        return found

    def kill(self) -> None:
        """End the process without waiting for it; takes no lock."""
        with suppress(OSError):
            self._process.kill()

    def ended(self) -> tuple[int, str]:
        """(exit code, the end of what it wrote to stderr) of a process that has closed its side."""
        code = self._process.wait()
        with suppress(OSError, ValueError):
            self._errors.seek(0)
            return code, self._errors.read()[-4000:].decode("utf-8", "replace")
        return code, ""

    def end(self) -> None:
        """Kill the process and let go of all that belongs to it; returns when its memory is free."""
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)  # not if it could not be started
        if process is not None:
            self.kill()
            process.wait()
            with suppress(OSError):
                (process.stdin or self._errors).close()
        self._connection.close()
        self._shared.handed_over()
        self._errors.close()
