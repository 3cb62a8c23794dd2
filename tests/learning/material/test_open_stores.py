"""The files learning keeps open: all of them or none, and a disk that fails is a sentence, never a wait without end."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.errors import StorageError
from omnidraft.learning.material.open_stores import OpenStores
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import ProfilePaths
from tests.learning.learning_helpers import random_record


def test_with_a_damaged_history_nothing_is_kept_open_and_the_next_load_says_so_again(tmp_path):
    profile = ProfilePaths.inside(tmp_path)
    profile.metrics.write_bytes(b"junk" * 1000)
    keeping = OpenStores(profile, LearningSettings)
    for _ in range(2):
        with pytest.raises(StorageError):
            keeping.open()
        assert keeping.replay is None
    profile.metrics.unlink()
    keeping.open()
    assert keeping.replay is not None
    assert keeping.history is not None
    keeping.close()


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    return [random_record(rng, 200) for _ in range(12)]


def add_all(store: ReplayStore, records: list[Record]) -> None:
    for record in records:
        store.add(record)


@pytest.mark.timeout(60)
def test_a_full_disk_is_an_error_and_not_a_hang_and_loses_nothing_older(tmp_path, records):
    path = tmp_path / "replay.sqlite"
    with ReplayStore(path) as store:
        store.add(records[0])
        store._records.conn.execute("PRAGMA max_page_count = 12")  # as a full disk
        with pytest.raises(StorageError, match="full"):
            add_all(store, records)
        kept = len(store)
    with ReplayStore(path) as store:
        assert len(store) == kept
        assert store.get(1).targets.tolist() == records[0].targets.tolist()


@pytest.mark.timeout(60)
def test_behind_a_writer_that_died_the_next_answer_is_kept(tmp_path, records):
    path = tmp_path / "replay.sqlite"
    with ReplayStore(path) as store:
        store.add(records[0])
        store._records.conn.close()  # the thread ends, as it does at a commit that fails
        store.add(records[1])
        assert len(store) == 2
    with ReplayStore(path) as store:
        assert store.get(2).targets.tolist() == records[1].targets.tolist()
