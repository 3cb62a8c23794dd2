"""Connections to SQLite files: through SQLCipher where the file's data home is encrypted, else Python's own.

SQLCipher encrypts every page, the log beside the file included, and is otherwise the same; only its exceptions are
other classes, so who catches SQLite's takes the tuples here. The two must never open the same file in one process:
closing it in one of them would release the other's locks. Knows nothing of tables.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from omnidraft.errors import StorageError
from omnidraft.storage.vault import vault_of

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
    path = Path(path)
    vault = vault_of(path)
    if existing:
        name, options = f"{path.absolute().as_uri()}?mode=rw", {**options, "uri": True}
    else:
        name = str(path)
    if vault is None:
        return sqlite3.connect(name, **options)
    return connect_with(vault.key_for(Path(path).absolute()), name, **options)


def connect_with(key: bytes, name: str, **options: Any) -> sqlite3.Connection:
    """A connection to an encrypted file, or to one that is made so."""
    if sqlcipher is None:
        raise StorageError("Encrypted data needs sqlcipher3, which is not installed; it is in requirements.txt.")
    connection = sqlcipher.connect(name, **options)
    try:
        connection.execute("PRAGMA cipher_log_level = NONE")  # it would print to stderr what is raised as well
        connection.execute(f"PRAGMA key = \"x'{key.hex()}'\"")  # a key as it is: nothing is derived, so it is quick
    except BaseException:
        connection.close()
        raise
    return connection


def copy_open(key: bytes, source: Path, plain: Path) -> None:
    """Write what an encrypted file holds at this moment to a new, readable one. Raises `Error`s."""
    with closing(connect_with(key, str(source), timeout=10, isolation_level=None)) as connection:
        _copy(connection, plain, "")


def copy_sealed(key: bytes, plain: Path, sealed: Path) -> None:
    """Write what a readable file holds at this moment to a new, encrypted one. Raises `Error`s."""
    assert sqlcipher is not None
    with closing(sqlcipher.connect(str(plain), timeout=10, isolation_level=None)) as connection:
        connection.execute("PRAGMA cipher_log_level = NONE")
        _copy(connection, sealed, f"x'{key.hex()}'")


def _copy(connection: sqlite3.Connection, target: Path, key: str) -> None:
    """All of it, as VACUUM would write it; the marks in the header are not tables and are set one by one."""
    connection.execute("ATTACH DATABASE ? AS copied KEY ?", (str(target), key))
    connection.execute("SELECT sqlcipher_export('copied')").fetchall()
    for mark in ("application_id", "user_version"):
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
