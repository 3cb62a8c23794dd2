"""The files learning keeps open: all of them or none, and a disk that fails is a sentence, never a wait without end."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.errors import StorageError
from omnidraft.learning.facts import Update
from omnidraft.learning.material.history import OpenStores
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


def test_a_full_disk_is_an_error_that_loses_nothing_older_and_behind_it_answers_are_kept(tmp_path, records):
    path = tmp_path / "replay.sqlite"
    with ReplayStore(path) as store:
        store.add(records[0])
        store._database.run("PRAGMA max_page_count = 16")  # as a full disk
        with pytest.raises(StorageError, match="full"):
            add_all(store, records)
        store._database.run("PRAGMA max_page_count = 1000000")
        last = store.add(records[1])
        kept = len(store)
    with ReplayStore(path) as store:
        assert len(store) == kept
        assert store.get(1).targets.tolist() == records[0].targets.tolist()
        assert store.get(last).targets.tolist() == records[1].targets.tolist()


def test_an_update_that_a_kill_ended_stays_in_its_stores_history(tmp_path):
    profile = ProfilePaths.inside(tmp_path)
    keeping = OpenStores(profile, LearningSettings)
    keeping.open()
    keeping.history.save("some/store", Update(1, 1.0, "drafter", "target", "vocabulary"))
    keeping.close()
    keeping.open()
    (found,) = keeping.history.updates(store="some/store")
    assert found.outcome == "interrupted"
    keeping.close()
