"""Keeps the learned n-grams of one vocabulary pair in a table of an SQLite file, through sqlitedict.

Knows rows of JSON and transactions, nothing of eviction. sqlitedict would unpickle by default, which runs code from
the file: values are JSON text here, and a file that holds anything else is refused before sqlitedict sees it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from omnidraft.errors import Damaged, StorageError
from omnidraft.storage import database
from omnidraft.storage.dict_table import DictTable

FORMAT = 1
_META = "meta"
_LOCKED_MILLISECONDS = 2000  # how long to wait while another process writes

_FAILURES: tuple[type[Exception], ...] = (*database.Error, OSError, RuntimeError)

Row = tuple[int, list]


class NgramStore:
    """Rows (target id, value), value any JSON list, and one JSON object `meta`."""

    def __init__(self, path: Path, table: str):
        """Open or create. StorageError if the file cannot be used, is damaged, or holds anything but JSON."""
        self.path, self._name = path, table
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.rows, self.meta = self._read()
            self._table = self._open()

    def write(self, changed: Iterable[Row], gone: Iterable[int], meta: dict[str, Any]) -> None:
        """Change and delete rows in one transaction; returns when it is committed."""
        with _explained(self.path):
            if not self._table.alive:  # it ended with a commit that failed, as on a full disk
                self._table.close()
                self._table = self._open()
            self._table.conn.execute("BEGIN IMMEDIATE")
            if failure := self._table.settle():  # locked by another process: nothing is queued that would wait as well
                raise failure
            try:
                for target_id, value in changed:
                    self._table[str(target_id)] = value
                for target_id in gone:
                    self._table.conn.execute(f'DELETE FROM "{self._name}" WHERE key = ?', (str(target_id),))
                self._table[_META] = {"format": FORMAT, **meta}
            finally:
                self._table.commit()

    def purge(self) -> None:
        """Make deleted rows unreadable in the file too: overwrite, rewrite the file, empty the write-ahead log."""
        with _explained(self.path):
            self._table.close()
            try:
                with closing(database.connect(self.path)) as connection:
                    connection.execute("PRAGMA secure_delete = ON")
                    connection.execute("VACUUM")
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._table = self._open()

    def close(self) -> None:
        with _explained(self.path):
            self._table.close()

    def _open(self) -> DictTable:
        table = DictTable(self.path, self._name, _encode, json.loads)
        table.conn.execute(f"PRAGMA busy_timeout = {_LOCKED_MILLISECONDS}")
        return table

    def _read(self) -> tuple[list[Row], dict[str, Any]]:
        """All rows in one query: sqlitedict hands them over one by one between threads, ten times slower."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            return [], {}
        with closing(database.connect(self.path)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for name in tables:
                _refuse_foreign(connection, name, self.path)
            if self._name not in tables:
                return [], {}
            rows = connection.execute(f'SELECT key, value FROM "{self._name}"').fetchall()
        meta = next((value for key, value in rows if key == _META), "{}")
        return _parse([row for row in rows if row[0] != _META], meta, self.path)


def _refuse_foreign(connection: sqlite3.Connection, table: str, path: Path) -> None:
    quoted = table.replace('"', '""')
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{quoted}")')]
    if "value" not in columns:
        return
    if connection.execute(f"SELECT 1 FROM \"{quoted}\" WHERE typeof(value) <> 'text' LIMIT 1").fetchone():
        raise Damaged(f"{path} holds binary values, which could be pickled code, and is not opened.")


def _parse(rows: list[tuple[str, str]], meta: str, path: Path) -> tuple[list[Row], dict[str, Any]]:
    try:
        keys = [int(key) for key, _ in rows]
        values = json.loads("[" + ",".join(value for _, value in rows) + "]")
        about = json.loads(meta)
    except (ValueError, TypeError, RecursionError):
        raise Damaged(f"{path} is not a readable n-gram cache.") from None
    if len(keys) != len(values) or not isinstance(about, dict) or about.get("format", FORMAT) != FORMAT:
        raise Damaged(f"{path} was not written by this version of the n-gram cache.")
    return list(zip(keys, values, strict=True)), about


def _encode(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@contextmanager
def _explained(path: Path):
    """Turn what SQLite and the file system raise into one sentence for display."""
    try:
        yield
    except _FAILURES as error:
        unreadable = isinstance(error, database.DatabaseError) and not isinstance(
            error, (*database.OperationalError, *database.MISTAKES)
        )
        raise (Damaged if unreadable else StorageError)(f"The n-gram cache {path} cannot be used: {error}.") from error
