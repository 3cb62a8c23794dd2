"""A sqlitedict table that is written by whoever asks, at once: no thread of its own that may die, whose answers others
would wait for, and that keeps the file open after it was told to close it.

sqlitedict's own pickling is not used either: it would run code from the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlitedict import SqliteDict

from omnidraft.storage import database


class _Connection:
    """What a table asks of sqlitedict's thread. As there, a statement that fails is told by what comes behind it."""

    autocommit = False

    def __init__(self, path: str) -> None:
        self._failure: sqlite3.Error | None = None
        self._own = database.connect(path, check_same_thread=False)
        try:
            # Not as sqlitedict has it: a power cut must not damage the file, and nothing deleted stays in it.
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON"):
                self._own.execute(f"PRAGMA {pragma}")
        except BaseException:
            self._own.close()
            raise

    def execute(self, request: str, values: Any = (), _queue: object = None) -> None:
        self._try(lambda: self._own.execute(request, values))

    def select(self, request: str, values: Any = ()) -> Iterator[tuple]:
        return iter(self._own.execute(request, values).fetchall())

    def select_one(self, request: str, values: Any = ()) -> tuple | None:
        return next(self.select(request, values), None)

    def commit(self, blocking: bool = True) -> None:
        self._try(self._own.commit)
        if failure := self.settle():
            with suppress(*database.Error):  # no transaction stays open
                self._own.rollback()
            raise failure

    def settle(self) -> sqlite3.Error | None:
        """The first failure of what was asked so far, if any."""
        failure, self._failure = self._failure, None
        return failure

    def close(self, force: bool = False) -> None:
        self._own.close()

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except database.Error as error:
            self._failure = self._failure or error


class DictTable(SqliteDict):
    """One table, written in transactions that `commit` ends, by raising the first failure of a statement if there was
    one. encode, decode: values to and from what SQLite stores."""

    def __init__(self, path: Path, name: str, encode: Callable, decode: Callable) -> None:
        super().__init__(str(path), tablename=name, encode=encode, decode=decode)

    def _new_conn(self) -> _Connection:
        return _Connection(self.filename)

    @property
    def alive(self) -> bool:
        """Whether anything can still be read or written."""
        return self.conn is not None

    def settle(self) -> Exception | None:
        """See `_Connection.settle`."""
        return self.conn.settle()
