"""Keeps the learned n-grams of one vocabulary pair in a table of an SQLite file.

Knows rows of JSON and transactions, nothing of eviction. Values are JSON text: a file that holds anything else, which
other programs might unpickle and so run, is refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from omnidraft.errors import StorageError
from omnidraft.storage import database

FORMAT = 1
_META = "meta"
_LOCKED_SECONDS = 2.0  # how long to wait while another process writes

_FAILURES: tuple[type[Exception], ...] = (*database.Error, OSError, RuntimeError)

Row = tuple[int, list]


class NgramStore:
    """Rows (target id, value), value any JSON list, and one JSON object `meta`; for several threads, one at a time."""

    def __init__(self, path: Path, table: str):
        """Open or create. StorageError if the file cannot be used, is damaged, or holds anything but JSON."""
        self.path, self._name = path, table
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.rows, self.meta = self._read()
            self._connection = self._open()

    def write(self, changed: Iterable[Row], gone: Iterable[int], meta: dict[str, Any]) -> None:
        """Change and delete rows in one transaction; returns when it is committed."""
        rows = [(str(target_id), _encode(value)) for target_id, value in changed]
        rows.append((_META, _encode({"format": FORMAT, **meta})))
        with _explained(self.path), database.transaction(self._connection):
            self._connection.executemany(f'REPLACE INTO "{self._name}" (key, value) VALUES (?, ?)', rows)
            self._connection.executemany(f'DELETE FROM "{self._name}" WHERE key = ?', [(str(id),) for id in gone])

    def purge(self) -> None:
        """Make deleted rows unreadable in the file too: overwrite, rewrite the file, empty the write-ahead log."""
        with _explained(self.path):
            database.erase_deleted(self._connection)

    def close(self) -> None:
        with _explained(self.path):
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = database.connect(
            self.path, timeout=_LOCKED_SECONDS, check_same_thread=False, isolation_level=None
        )  # fmt: skip
        try:
            database.prepare(connection)
            connection.execute("PRAGMA synchronous=NORMAL")  # a power cut costs the last answers' n-grams, no more
            connection.execute(f'CREATE TABLE IF NOT EXISTS "{self._name}" (key TEXT PRIMARY KEY, value BLOB)')
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self) -> tuple[list[Row], dict[str, Any]]:
        """All rows in one query."""
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
        raise StorageError(
            f"{path} holds binary values, which could be pickled code, and is not opened; move it away to start afresh."
        )


def _parse(rows: list[tuple[str, str]], meta: str, path: Path) -> tuple[list[Row], dict[str, Any]]:
    try:
        keys = [int(key) for key, _ in rows]
        values = json.loads("[" + ",".join(value for _, value in rows) + "]")
        about = json.loads(meta)
    except (ValueError, TypeError, RecursionError):
        raise StorageError(f"{path} is not a readable n-gram cache; move it away to start afresh.") from None
    if len(keys) != len(values) or not isinstance(about, dict) or about.get("format", FORMAT) != FORMAT:
        raise StorageError(f"{path} was not written by this version of the n-gram cache.")
    return list(zip(keys, values, strict=True)), about


def _encode(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@contextmanager
def _explained(path: Path):
    """Turn what SQLite and the file system raise into one sentence for display."""
    try:
        yield
    except _FAILURES as error:
        raise StorageError(f"The n-gram cache {path} cannot be used: {error}.") from error
