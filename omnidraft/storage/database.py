"""Opening SQLite files that are ours: durable, erasing what is deleted, and brought forward step by step.

A file is ours if its header carries our application id; anything else is refused before it is read. Migrations are
named and only ever appended: each runs once per file, in order, in its own transaction. Knows nothing of the tables.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from omnidraft.errors import Damaged, StorageError
from omnidraft.storage.files import move_aside
from omnidraft.storage.vault import key_of

log = logging.getLogger("omnidraft.storage")

# Connections to SQLite files: through SQLCipher where the file's data home is encrypted, else Python's own. SQLCipher
# encrypts every page, the log beside the file included, and is otherwise the same; only its exceptions are other
# classes, so who catches SQLite's takes the tuples here. The two must never open the same file in one process: closing
# it in one of them would release the other's locks. Knows nothing of tables.


try:
    from sqlcipher3 import dbapi2 as sqlcipher
except ImportError:  # no encrypted file can be opened then, and a sentence says so
    sqlcipher = None

_DRIVERS: list[Any] = [sqlite3] if sqlcipher is None else [sqlite3, sqlcipher]


def _both(name: str) -> tuple[type[sqlite3.Error], ...]:
    return tuple(getattr(driver, name) for driver in _DRIVERS)


Error = _both("Error")
DatabaseError = _both("DatabaseError")
OperationalError = _both("OperationalError")
MISTAKES = (*_both("ProgrammingError"), *_both("IntegrityError"), *_both("InterfaceError"))  # a program's, not a file's


def connect(path: Path | str, *, existing: bool = False, **options: Any) -> sqlite3.Connection:
    """As `sqlite3.connect`. existing: do not make the file. StorageError if it is encrypted and cannot be opened."""
    name, key = str(path), key_of(path)
    if existing:
        name, options = f"{Path(path).absolute().as_uri()}?mode=rw", {**options, "uri": True}
    return sqlite3.connect(name, **options) if key is None else connect_with(key, name, **options)


def connect_with(key: bytes | None, name: str, **options: Any) -> sqlite3.Connection:
    """A connection of SQLCipher's to an encrypted file, or to one that is made so; without a key to a readable one."""
    if sqlcipher is None:
        raise StorageError("Encrypted data needs sqlcipher3, which is not installed; it is in requirements.txt.")
    connection = sqlcipher.connect(name, **options)
    try:
        connection.execute("PRAGMA cipher_log_level = NONE")  # it would print to stderr what is raised as well
        if key is not None:
            connection.execute(f'PRAGMA key = "{_raw(key)}"')
    except BaseException:
        connection.close()
        raise
    return connection


def _raw(key: bytes) -> str:
    """A key as it is: nothing is derived, so it is quick."""
    return f"x'{key.hex()}'"


def copy(source: Path, target: Path, old: bytes | None, new: bytes | None) -> None:
    """Write what a file holds at this moment to a new one, as VACUUM would. old, new: their keys; None for one that is
    readable. Raises `Error`s."""
    with closing(connect_with(old, str(source), timeout=10, isolation_level=None)) as connection:
        connection.execute("ATTACH DATABASE ? AS copied KEY ?", (str(target), "" if new is None else _raw(new)))
        connection.execute("SELECT sqlcipher_export('copied')").fetchall()
        for mark in ("application_id", "user_version"):  # which are no tables
            (value,) = connection.execute(f"PRAGMA main.{mark}").fetchone()
            connection.execute(f"PRAGMA copied.{mark} = {int(value)}")
        connection.execute("DETACH DATABASE copied")


def is_open(database: Path) -> bool:
    """Whether another connection has the file open: in WAL mode each holds a lock as long as it lives."""
    if not database.is_file() or not database.stat().st_size:
        return False
    with closing(connect(database, existing=True, timeout=0.2)) as connection:
        return is_shared(connection)


def is_shared(connection: sqlite3.Connection) -> bool:
    """Whether another connection has this one's file open."""
    try:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    except OperationalError as error:
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    except DatabaseError:
        return False  # damaged: nobody works with it
    return False


Migration = tuple[str, str]  # name, SQL statements
Values = Sequence[Any] | Mapping[str, Any]
BUSY_SECONDS = 10
PATIENT_SECONDS = 3600


class Database:
    """One file of ours behind one lock, for several threads. Raises StorageError as `open_database` does."""

    def __init__(self, file: Path, application_id: int, migrations: Sequence[Migration]) -> None:
        self.file = Path(file)
        self._lock = threading.RLock()
        self.connection = open_database(self.file, application_id, migrations)

    def close(self) -> None:
        with self.using():
            self.connection.close()

    @contextmanager
    def using(self) -> Iterator[None]:
        """The lock, and SQLite's complaints as sentences."""
        with self._lock, display_errors(self.file):
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The lock and a transaction; inside another `changing` of the same thread it joins that one's."""
        with self.using():
            if self.connection.in_transaction:
                yield
            else:
                with transaction(self.connection):
                    yield

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Inside, writes wait as long as it takes for another connection that writes the file anew."""
        self.run(f"PRAGMA busy_timeout={PATIENT_SECONDS * 1000}")
        try:
            yield
        finally:
            self.run(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    def run(self, sql: str, values: Values = ()) -> None:
        with self.using():
            self.connection.execute(sql, values)

    def all(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        with self.using():
            return self.connection.execute(sql, values).fetchall()


def open_database(path: Path, application_id: int, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """A connection usable from any thread (one at a time), in autocommit mode, all migrations applied.

    Raises StorageError if the file is damaged, not ours, or written by a newer version; it is then left as it was.
    """
    with display_errors(path):
        _make_private(path)
        connection = connect(path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)
        try:
            _check_owner(connection, path, application_id)
            _prepare(connection)
            _migrate(connection, path, application_id, migrations)
        except BaseException:
            connection.close()
            raise
    return connection


def _make_private(path: Path) -> None:
    """Make the file, if it is missing, for its owner alone: SQLite itself asks for 0644, and its logs copy that. One
    that is there is not touched: to close it would release the locks of every connection this process has to it."""
    if str(path) != ":memory:":
        with suppress(OSError):  # SQLite says it better
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. Takes the write lock at once, so that reads inside see what the writes will change."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back already
            connection.execute("ROLLBACK")
        raise


@contextmanager
def display_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a file or disk into a sentence; our own mistakes pass through unchanged."""
    try:
        yield
    except MISTAKES:
        raise
    except OperationalError as error:
        raise StorageError(f"{path} cannot be used: {error}.") from error
    except DatabaseError as error:
        raise Damaged(f"{path} is damaged or not one of OmniDraft's files ({error}).") from error


T = TypeVar("T")


def derived(path: Path, make: Callable[[], T]) -> tuple[T, list[str]]:
    """What `make` opens of a file whose content can be made anew, and a sentence if it was damaged: then it begins
    empty, and the old one stays beside it under another name."""
    try:
        return make(), []
    except Damaged as error:
        if (aside := move_aside(path)) is None:
            raise
        told = f"{path.name} could not be read, so it is begun anew; the old one is kept as {aside.name}."
        log.warning("%s (%s)", told, error)
        return make(), [told]


def erase_deleted(connection: sqlite3.Connection) -> bool:
    """Make deleted content leave the file and its write-ahead log. False if another process was reading: try later.

    `secure_delete` has overwritten the freed pages; VACUUM drops them and the slack inside kept pages, the
    checkpoint empties the log that still holds older copies.
    """
    connection.execute("VACUUM")
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def _check_owner(connection: sqlite3.Connection, path: Path, application_id: int) -> None:
    connection.execute("BEGIN")  # one look at both: another program may be making the file just now
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("COMMIT")
    if objects and found != application_id:
        raise Damaged(f"{path} is a database that OmniDraft did not write; it was left alone.")


def _prepare(connection: sqlite3.Connection) -> None:
    for pragma in (
        "trusted_schema=OFF",  # a planted view or trigger cannot call functions with side effects
        "secure_delete=ON",
        "temp_store=MEMORY",  # VACUUM and sorting leave no copy of conversations in the system's temporary folder
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    _use_write_ahead_log(connection)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """SQLite does not wait by itself here, so two programs that make one file at once would fail."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, path: Path, application_id: int, migrations: Sequence[Migration]) -> None:
    with transaction(connection):
        connection.execute(f"PRAGMA application_id={application_id}")
        connection.execute("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL)")
        done = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    if unknown := done - {name for name, _ in migrations}:
        raise StorageError(f"{path} was written by a newer version of OmniDraft ({min(unknown)}); please update.")
    for name, statements in migrations:
        if name not in done:
            _apply(connection, name, statements)


def _apply(connection: sqlite3.Connection, name: str, statements: str) -> None:
    with transaction(connection):
        # Another process may have come first between our look and our lock.
        if connection.execute("SELECT 1 FROM migrations WHERE name = ?", (name,)).fetchone():
            return
        for statement in split_statements(statements):
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, time.time()))


def split_statements(script: str) -> Iterator[str]:
    """Single statements of an SQL script; `executescript` would commit the surrounding transaction."""
    pending = ""
    *pieces, rest = script.split(";")
    for piece in pieces:
        pending += piece + ";"
        if sqlite3.complete_statement(pending):  # not inside a text or a trigger's body
            yield pending.strip()
            pending = ""
    if (pending + rest).strip():
        raise ValueError(f"unfinished SQL: {(pending + rest).strip()}")
