"""A sqlitedict table whose writer thread may die: that is an exception for whoever waits, never a wait without end.

sqlitedict hands every statement to a thread of its own and waits for its answers. Where a commit fails (disk full) the
thread ends, and sqlitedict goes on waiting. Its own pickling is not used either: it would run code from the file.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlitedict import SqliteDict, SqliteMultithread

from omnidraft.storage import database

ANSWER_SECONDS = 60.0  # how long the disk may take before it counts as gone
_LOOK_SECONDS = 0.5
# Its errors reach the caller as exceptions; the log would print tracebacks besides.
logging.getLogger("sqlitedict").setLevel(logging.CRITICAL + 1)


class Silent(sqlite3.OperationalError):
    """The thread that writes has died, or the disk does not answer."""


class _Writer(SqliteMultithread):
    """sqlitedict's thread, with its death noted instead of printed."""

    opened: tuple[sqlite3.Connection, sqlite3.Cursor] | None = None

    def _connect(self) -> tuple[sqlite3.Connection, sqlite3.Cursor]:
        connection = database.connect(self.filename, check_same_thread=False)
        self.opened = connection, connection.cursor()
        connection.execute(f"PRAGMA journal_mode = {self.journal_mode}")
        return self.opened

    def run(self) -> None:
        try:
            super().run()
        except Exception:
            with self._lock:
                self.exception = sys.exc_info()
        finally:
            # The exception keeps the frame and with it the connection: closed here, or the file would stay open.
            for one in reversed(self.opened or ()):
                with suppress(*database.Error):
                    one.close()

    def select(self, req: str, arg: tuple | None = None) -> Iterator[tuple]:
        answers: queue.Queue = queue.Queue()
        self.execute(req, arg, answers)
        while isinstance(row := self._next(answers), tuple):  # the end is marked by a text
            yield row

    def _next(self, answers: queue.Queue) -> Any:
        waited = 0.0
        while True:
            alive = self.is_alive()  # asked first: what it said before it died is still there
            try:
                row = answers.get(timeout=_LOOK_SECONDS)
                break
            except queue.Empty:
                waited += _LOOK_SECONDS
            if not alive or waited >= ANSWER_SECONDS:
                self.check_raise_error()
                raise Silent("the database does not answer")
        self.check_raise_error()
        return row

    def close(self, force: bool = False) -> None:
        """The file is released when this returns, and when it raises what an earlier statement met."""
        if force or not self.is_alive():  # a dead thread would never confirm
            super().close(force=True)
            return
        try:
            super().close()
        except database.Error:
            super().close(force=True)
            raise
        finally:
            self.join(ANSWER_SECONDS)


class DictTable(SqliteDict):
    """One table, written in transactions that `commit` ends. encode, decode: values to and from what SQLite stores."""

    def __init__(self, path: Path, name: str, encode: Callable, decode: Callable) -> None:
        super().__init__(
            str(path), tablename=name, encode=encode, decode=decode, autocommit=False, journal_mode="WAL",
            outer_stack=False,
        )  # fmt: skip
        # sqlitedict turns syncing off, with which a power cut can damage the file; this costs nothing per commit.
        self.conn.execute("PRAGMA synchronous = NORMAL")
        self.conn.execute("PRAGMA secure_delete = ON")

    def _new_conn(self) -> _Writer:
        return _Writer(self.filename, autocommit=False, journal_mode="WAL", outer_stack=False)

    @property
    def alive(self) -> bool:
        """Whether anything can still be read or written."""
        return self.conn is not None and self.conn.is_alive()

    def commit(self, blocking: bool = True) -> None:
        """Commit, even if a statement failed, so that no transaction stays open; then raise that failure
        (one of `database.Error`). It always waits until the disk has it."""
        failure = self.settle()
        self.conn.commit(blocking=False)
        if failure := failure or self.settle():
            raise failure

    def settle(self) -> Exception | None:
        """Wait until all that was asked so far is done; the first failure, if any."""
        failure: Exception | None = None
        while True:
            try:
                self.conn.select_one("SELECT 1")
                return failure
            except Silent as error:
                return failure or error
            except database.Error as error:  # an earlier statement's
                failure = failure or error
