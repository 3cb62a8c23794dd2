"""Forgetting leaves no file made from what is forgotten, also when it is repeated behind an interruption."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from omnidraft.chats import ChatStore
from omnidraft.errors import StorageError
from omnidraft.learning.adapters.serving import MERGED
from omnidraft.learning.adapters.store import Candidate, keep_candidate, read_candidate
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.folders import create_profile
from omnidraft.profiles.forget import forget_chat, forget_everything_from, forget_from, list_sources
from omnidraft.storage.paths import ProfilePaths
from tests.learning.learning_helpers import random_record


def test_a_merged_drafter_goes_even_if_its_version_went_before_an_interruption(home):
    paths = home.profile("default")
    with ReplayStore(paths.replay) as replay:
        replay.add(random_record(np.random.default_rng(0), 30, chat="chat 0"))
    merged = paths.root / MERGED / "drafter" / "v000001.gguf"
    merged.parent.mkdir(parents=True)
    merged.write_bytes(b"weights that know")
    gone = forget_chat(home, "default", "chat 0")
    assert (gone.answers, gone.adapters) == (1, 0)
    assert not merged.exists()


def test_what_is_left_in_nothing_but_a_candidate_is_listed_and_forgotten_by_name(home):
    """Its answers may have been evicted meanwhile, or a forget interrupted."""
    paths = home.profile("default")
    store = paths.adapters / "drafter" / "vocabulary"
    keep_candidate(store, Candidate({"matrix": np.ones(3, np.float32)}, "base", 1, 2, ("typed in a terminal",)))
    (source,) = list_sources(paths)
    assert (source.id, source.kept, source.versions) == ("typed in a terminal", False, 0)
    assert forget_chat(home, "default", "typed in").adapters == 0
    assert read_candidate(store) is None
    assert not list_sources(paths)


@pytest.fixture
def ada(home) -> ProfilePaths:
    paths = create_profile(home, "Ada")
    with ChatStore(paths.chats) as store:
        store.append(store.create().id, "user", "Tell me about walruses.")
    return paths


@contextmanager
def held_open(database: Path) -> Iterator[None]:
    """As a program that answers has its n-grams."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS held (id)")
        yield


@pytest.mark.parametrize("part", ["ngrams", "replay", "metrics"])
def test_nothing_is_forgotten_while_another_program_would_write_it_back(home, ada, part):
    held = getattr(ada, part)
    with ChatStore(ada.chats) as store:
        with held_open(held), pytest.raises(StorageError, match="Nothing was forgotten: another program"):
            forget_everything_from(ada, store)
        with held_open(held), pytest.raises(StorageError, match="Nothing was forgotten: another program"):
            forget_from(ada, store, store.conversations()[0].id)
        assert len(store.conversations()) == 1
        assert forget_everything_from(ada, store).conversations == 1


def test_what_an_earlier_version_kept_beside_conversations_goes_with_everything(ada):
    prompt = "Brunhilde's own prompt"
    with ChatStore(ada.chats):
        pass
    with closing(sqlite3.connect(ada.chats)) as connection, connection:
        connection.execute("INSERT INTO library VALUES ('prompt', 'mine', ?)", (prompt,))
    with ChatStore(ada.chats) as store:
        forget_everything_from(ada, store)
    for file in ada.root.rglob("chats*"):
        assert prompt.encode() not in file.read_bytes(), file
