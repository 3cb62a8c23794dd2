"""Databases of an encrypted home: the same to their users, unreadable to everybody else."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from omnidraft.processes import system
from omnidraft.storage import database
from omnidraft.storage.dict_table import DictTable
from omnidraft.storage.vault import Vault

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

KEY = bytes(range(32))


@pytest.fixture
def folder(tmp_path):
    made = Vault(tmp_path, KEY)
    made.hold()
    (tmp_path / "profiles" / "anna").mkdir(parents=True)
    yield tmp_path / "profiles" / "anna"
    made.close()


def fill(connection) -> None:
    for statement in (
        "PRAGMA journal_mode=WAL", "PRAGMA application_id=77", "PRAGMA user_version=3",
        "CREATE TABLE words (word TEXT, number REAL)", "CREATE INDEX by_word ON words (word)",
        "INSERT INTO words VALUES ('Zanzibarquux', 1.5), ('b', 2), ('c', 3)", "DELETE FROM words WHERE word = 'b'",
        "CREATE VIRTUAL TABLE found USING fts5(text, tokenize='trigram')",
        "INSERT INTO found (rowid, text) VALUES (7, 'Zanzibarquux')",
    ):  # fmt: skip
        connection.execute(statement)


def content(connection) -> list:
    queries = (
        "SELECT rowid, * FROM words", "SELECT rowid FROM found WHERE found MATCH 'zibar'", "PRAGMA application_id",
        "PRAGMA user_version", "SELECT type, name FROM sqlite_master ORDER BY name",
    )  # fmt: skip
    return [connection.execute(query).fetchall() for query in queries]


def test_neither_the_file_nor_its_log_can_be_read(folder):
    file = folder / "chats.sqlite"
    with closing(database.connect(file, isolation_level=None)) as connection:
        fill(connection)
        data = b"".join(path.read_bytes() for path in folder.iterdir())
        assert {path.suffix for path in folder.iterdir()} == {".sqlite", ".sqlite-wal", ".sqlite-shm"}
        assert len(data) > 10_000
        assert not [word for word in (b"Zanzibar", b"CREATE", b"words", b"SQLite format") if word in data]
    with closing(sqlite3.connect(file)) as plain, pytest.raises(sqlite3.DatabaseError):
        plain.execute("SELECT * FROM words")


def test_a_copy_made_readable_and_back_is_the_same(folder, tmp_path):
    file, key = folder / "chats.sqlite", bytes(32)
    with closing(database.connect(file, isolation_level=None)) as connection:
        fill(connection)
        before = content(connection)
        database.copy_open(Vault(tmp_path, KEY).key("chats"), file, tmp_path / "plain.sqlite")  # while it is in use
    with closing(sqlite3.connect(tmp_path / "plain.sqlite")) as plain:
        assert content(plain) == before
    database.copy_sealed(key, tmp_path / "plain.sqlite", tmp_path / "again.sqlite")
    with closing(database.connect_with(key, str(tmp_path / "again.sqlite"))) as again:
        assert content(again) == before


def test_errors_of_either_driver_are_caught_alike(folder, tmp_path, capfd):
    for path in (folder / "chats.sqlite", tmp_path / "plain.sqlite"):
        path.write_bytes(b"no database at all" * 1000)
        with closing(database.connect(path)) as connection, pytest.raises(database.DatabaseError):
            connection.execute("SELECT * FROM sqlite_master")
        path.unlink()
        with closing(database.connect(path)) as connection, pytest.raises(database.OperationalError):
            connection.execute("SELECT * FROM nothing")
    assert capfd.readouterr().err == ""


def test_whether_a_file_is_open_is_known_of_encrypted_ones_too(folder):
    file = folder / "replay.sqlite"
    table = DictTable(file, "records", str, str)
    table["key of mine"] = "Zanzibarquux"
    table.commit()
    assert database.is_open(file)
    table.close()
    assert not database.is_open(file)
    assert not [word for word in (b"key of mine", b"Zanzibar", b"records") if word in file.read_bytes()]
    again = DictTable(file, "records", str, str)
    assert again["key of mine"] == "Zanzibarquux"
    again.close()
