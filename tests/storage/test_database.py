"""Our SQLite files: owned, migrated forward step by step, transactions whole."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from omnidraft.chats import ChatStore
from omnidraft.chats.schema import APPLICATION_ID, MIGRATIONS
from omnidraft.errors import StorageError
from omnidraft.storage.database import Database, open_database

ID = 0x4F440001
FIRST = ("first", "CREATE TABLE words (word TEXT);")
SECOND = ("second", "ALTER TABLE words ADD COLUMN length INTEGER;\nUPDATE words SET length = length(word);")


def test_migrations_run_once_in_order_and_keep_the_content(tmp_path):
    path = tmp_path / "x.sqlite"
    connection = open_database(path, ID, [FIRST])
    connection.execute("INSERT INTO words VALUES ('walrus')")
    connection.close()
    for _ in range(2):
        connection = open_database(path, ID, [FIRST, SECOND])
        assert connection.execute("SELECT * FROM words").fetchall() == [("walrus", 6)]
        assert [n for (n,) in connection.execute("SELECT name FROM migrations ORDER BY applied")] == ["first", "second"]
        connection.close()


def test_a_failing_migration_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.sqlite"
    open_database(path, ID, [FIRST]).close()
    broken = ("broken", "INSERT INTO words VALUES ('x'); SELECT nonsense FROM nowhere;")
    with pytest.raises(StorageError):
        open_database(path, ID, [FIRST, broken])
    connection = open_database(path, ID, [FIRST])
    assert connection.execute("SELECT * FROM words").fetchall() == []
    connection.close()


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "x.sqlite"
    open_database(path, ID, [FIRST, SECOND]).close()
    with pytest.raises(StorageError, match="newer version"):
        open_database(path, ID, [FIRST])


@pytest.mark.parametrize("kind", ["of another store", "of another program", "text", "a folder", "below nothing"])
def test_what_is_not_ours_is_refused_in_a_sentence_and_left_alone(tmp_path, kind):
    path = tmp_path / "x.sqlite" if kind != "below nothing" else tmp_path / "none" / "x.sqlite"
    if kind == "of another store":
        open_database(path, ID + 1, [FIRST]).close()
    elif kind == "of another program":
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE mine (x)")
    elif kind == "text":
        path.write_text("not a database " * 100)
    elif kind == "a folder":
        path.mkdir()
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StorageError) as refused:
        open_database(path, ID, [FIRST])
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_every_earlier_version_of_the_conversations_opens_today(tmp_path):
    for done in range(1, len(MIGRATIONS) + 1):
        path = tmp_path / f"{done}.sqlite"
        connection = open_database(path, APPLICATION_ID, MIGRATIONS[:done])
        connection.execute(
            "INSERT INTO conversations (id, title, named, created, updated, system, speculation) "
            "VALUES ('c', 'Old', 1, 1.0, 2.0, '', 1)"
        )
        connection.execute("INSERT INTO messages VALUES (1, 'm', 'c', NULL, 'user', 'an old walrus', 1.0, 1, '{}')")
        connection.close()
        with ChatStore(path) as store:
            assert [m.content for m in store.path("c")] == ["an old walrus"]
            assert store.search("walrus")


def test_what_fails_inside_a_transaction_undoes_all_of_it(tmp_path):
    database = Database(tmp_path / "x.sqlite", ID, [FIRST])

    def fail():
        with database.changing():
            database.run("INSERT INTO words VALUES ('outer')")
            with database.changing():
                database.run("INSERT INTO words VALUES ('inner')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert database.all("SELECT * FROM words") == []
    database.close()


def test_a_file_is_its_owners_alone_and_so_are_its_logs(tmp_path):
    before = os.umask(0o022)
    try:
        connection = open_database(tmp_path / "x.sqlite", ID, [FIRST])
        connection.execute("INSERT INTO words VALUES ('walrus')")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert modes == {"x.sqlite": 0o600, "x.sqlite-wal": 0o600, "x.sqlite-shm": 0o600}


IS_OPEN = """
import pathlib, sys
from omnidraft.storage.database import is_open
print(is_open(pathlib.Path(sys.argv[1])))
"""


def test_a_file_opened_twice_here_stays_locked_for_other_processes(tmp_path):
    """Else another one that closes it takes its log away from under us, and what is read then is damaged."""
    path = tmp_path / "x.sqlite"
    first = Database(path, ID, [FIRST])
    second = Database(path, ID, [FIRST])
    root = Path(__file__).resolve().parents[2]
    asked = subprocess.run([sys.executable, "-c", IS_OPEN, path], cwd=root, capture_output=True, text=True, check=True)
    assert asked.stdout == "True\n"
    first.close()
    second.close()
