"""A table whose writer died, or met an error nobody asked about, still lets go of its file."""

from __future__ import annotations

import gc
import sqlite3

import pytest

from omnidraft.storage.database import is_open
from omnidraft.storage.dict_table import DictTable


@pytest.fixture
def path(tmp_path):
    gc.disable()  # what only the collector would close counts as open
    yield tmp_path / "x.sqlite"
    gc.enable()


def open_table(path) -> DictTable:
    table = DictTable(path, "words", str, str)
    table["a"] = "b"
    table.commit()
    return table


def test_a_table_whose_writer_died_is_in_no_use(path):
    table = open_table(path)
    writer = table.conn
    writer.reqs.put(("no such request", 1, 2))  # ends the thread with an exception, as a failed commit does
    writer.join(60)
    assert not writer.is_alive()
    assert writer.exception is not None  # kept for whoever asks, with the frame it came from
    assert not is_open(path)
    table.close()


def test_an_error_that_nobody_asked_about_is_raised_when_the_file_is_closed_and_the_file_is_closed(path):
    table = open_table(path)
    table.conn.execute("nonsense")
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        table.close()
    assert not is_open(path)
    with open_table(path) as again:
        assert dict(again) == {"a": "b"}
