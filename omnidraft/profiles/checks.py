"""Is a file from elsewhere safe to open later? Looks at content without loading any of it.

Pickled values run code when read, and so may triggers and views when a database is used: none of the project's files
holds any, so a file that does is refused.
"""

from __future__ import annotations

import json
import pickletools
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np

from omnidraft.backends.gguf.file import data_end, read_info
from omnidraft.backends.gguf.header import read_header
from omnidraft.chats import ChatStore, export_json, read_json
from omnidraft.errors import ModelError, StorageError
from omnidraft.storage import database

SQLITE_MAGIC = b"SQLite format 3\0"
SEARCH_INDEX = "message_index"  # of conversations; made anew from them
MANY_OPCODES = 100_000  # nothing of ours reads as so many; megabytes that do would take minutes
MAX_RATIO, FREE_BYTES = 100, 16 << 20  # what packed bytes may unpack to: so many times as much, and a little anyhow
SLACK = 4096  # bytes behind the last tensor of a file, where the next would be aligned to
MAX_TEXT = 16 << 20  # of an adapter's file that is read whole
_UNREADABLE: tuple[type[Exception], ...] = (*database.Error, UnicodeDecodeError)
_LOADING = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "STOP"})
_JSON_SUFFIXES = (".json",)
_TEXT_SUFFIXES = (".txt", ".md", ".toml", ".jsonl", ".csv")


def looks_like_pickle(data: bytes) -> bool:
    """Would unpickling `data` get as far as looking up code, or to its end?

    JSON is never a pickle, though a lone number such as 1.5 reads as one. An empty MessagePack map is the single byte
    with which pickles begin.
    """
    if len(data) > 1 and data[0] == 0x80 and 1 <= data[1] <= 5:
        return True
    if _is_json(data):
        return False
    try:
        for number, (opcode, _, _) in enumerate(pickletools.genops(data)):
            if opcode.name in _LOADING or number > MANY_OPCODES:
                return True
        return False
    except (ValueError, UnicodeDecodeError, struct.error, IndexError, OverflowError, MemoryError):
        return False


def check_database(path: Path) -> None:
    """StorageError unless `path` is a sound SQLite file of plain tables without pickled values."""
    with open(path, "rb") as file:
        if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            raise StorageError(f"{path} is not a database.")
    try:
        with closing(database.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA cell_size_check=ON")
            _drop_search_index(connection)
            _check_schema(connection, path)
            if connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
                raise StorageError(f"{path} is damaged.")
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if any(_holds_pickles(connection, table) for (table,) in tables):
                raise StorageError(f"{path} holds pickled values, which run code when they are read.")
    except _UNREADABLE as error:
        raise StorageError(f"{path} is damaged ({error}).") from error


def check_chats(path: Path) -> None:
    """StorageError unless the conversations open, have exactly our tables, and would pass an import themselves."""
    with ChatStore(path, full_text=False) as store, ChatStore(Path(":memory:"), full_text=False) as fresh:
        if store.schema() != fresh.schema():
            raise StorageError(f"{path} has tables that OmniDraft did not make.")
        try:
            for chat in store.conversations():  # one at a time, and without an index: there may be much text
                read_json(export_json(store, [chat.id]))
        except StorageError as error:
            found = str(error).removeprefix("The file cannot be imported: ")
            raise StorageError(f"{path} is damaged: {found}") from error
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise StorageError(f"{path} holds values that are not conversations ({type(error).__name__}).") from error


def check_adapter_file(path: Path) -> None:
    """StorageError unless `path` is of a kind an adapter version holds and looks like one inside."""
    suffix = path.suffix.lower()
    if suffix in (*_JSON_SUFFIXES, *_TEXT_SUFFIXES) and path.stat().st_size > MAX_TEXT:
        raise StorageError(f"{path} is larger than a text that belongs to an adapter.")
    if suffix == ".gguf":
        good = _is_adapter(path)
    elif suffix in (".npz", ".npy"):
        good = _plain_arrays(path)
    elif suffix in _JSON_SUFFIXES:
        good = _is_json(path.read_bytes())
    else:
        good = suffix in _TEXT_SUFFIXES and b"\0" not in path.read_bytes() and not looks_like_pickle(path.read_bytes())
    if not good:
        raise StorageError(f"{path} is not a file that an adapter consists of.")


def _drop_search_index(connection: sqlite3.Connection) -> None:
    """The one virtual table we make. Its inner tables are bytes that only FTS5 understands, so they are not kept."""
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (SEARCH_INDEX,)).fetchone()
    if made and str(made[0]).startswith(f"CREATE VIRTUAL TABLE {SEARCH_INDEX} USING fts5("):
        connection.execute(f"DROP TABLE {SEARCH_INDEX}")


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind not in ("table", "index") or str(sql or "").upper().lstrip().startswith("CREATE VIRTUAL"):
            raise StorageError(f"{path} holds a {kind} {str(name)[:40]!r} that OmniDraft did not make.")


def _holds_pickles(connection: sqlite3.Connection, table: str) -> bool:
    """Any binary value, and any text in a column named as sqlitedict names its values."""
    for column in connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall():
        name = _quoted(column[1])
        kinds = "('blob', 'text')" if column[1] == "value" else "('blob')"
        values = connection.execute(
            f"SELECT CAST({name} AS BLOB) FROM {_quoted(table)} WHERE typeof({name}) IN {kinds}"
        )
        if any(looks_like_pickle(value) for (value,) in values):
            return True
    return False


def _plain_arrays(path: Path) -> bool:
    """NumPy data without Python objects: those would be pickled."""
    try:
        if path.suffix.lower() == ".npy":
            with open(path, "rb") as file:
                return not _array_type(file).hasobject
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                entry = archive.getinfo(name)
                if entry.file_size > MAX_RATIO * entry.compress_size + FREE_BYTES:
                    return False
                with archive.open(entry) as file:
                    if _array_type(file).hasobject:
                        return False
            return True
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, RuntimeError):
        return False


def _is_adapter(path: Path) -> bool:
    """A LoRA whose tensors are known ones and fill the file."""
    try:
        adapter, header = read_info(path).kind == "adapter", read_header(path)
        return adapter and data_end(header) + SLACK >= header.file_size
    except ModelError:
        return False


def _array_type(file: IO[bytes]) -> np.dtype:
    """The element type in the header of one stored array, read without its data."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError("an unusual version of the format")
    return read(file)[2]


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
