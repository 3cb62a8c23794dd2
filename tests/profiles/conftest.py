"""A data home with one profile that has something of everything in it."""

import json
import shutil
import sqlite3

import numpy as np
import pytest

from omnidraft.chats import ChatStore
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.folders import create_profile
from omnidraft.settings.config import AppSettings, changed
from omnidraft.settings.file import save_settings
from omnidraft.storage.paths import ProfilePaths
from omnidraft.vocab import NgramCache, PairMap
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.adapters import lora
from tests.learning.learning_helpers import random_record

SETTINGS = changed(AppSettings(), **{"theme": "dark", "sampling.top_k": 7})


@pytest.fixture(scope="session")
def pair(models):
    files = [models / f"{name}-f16.gguf" for name in ("tiny-drafter", "tiny-target-a")]
    return PairMap.build(*(read_gguf_vocabulary(file) for file in files), None)


def record(number):
    return random_record(np.random.default_rng(number), 30, chat=f"chat {number}", target="tiny-target-a")


@pytest.fixture
def ada(home, filled):
    """The profile "Ada", closed, with settings, conversations, n-grams, replay, an adapter version and metrics."""
    paths = create_profile(home, "Ada")
    shutil.copytree(filled.root, paths.root, dirs_exist_ok=True)
    return paths


@pytest.fixture(scope="session")
def filled(pair, tmp_path_factory):
    """What "Ada" is copied from."""
    paths = ProfilePaths.inside(tmp_path_factory.mktemp("filled"))
    save_settings(paths.settings, SETTINGS)
    with ChatStore(paths.chats) as store:
        chat = store.create(system="x")
        store.append(chat.id, "user", "Tell me about walruses.")
        store.append(chat.id, "assistant", "They are large.", meta={"seed": 1})
    cache = NgramCache.open(paths.ngrams, pair, SETTINGS.cache)
    cache.learn(next(token for token, pieces in enumerate(pair.expansions) if len(pieces) > 1))
    cache.close()
    with ReplayStore(paths.replay) as replay:
        for number in range(40):
            replay.add(record(number))
    with sqlite3.connect(paths.metrics) as metrics:
        metrics.execute("CREATE TABLE answers (time REAL, acceptance REAL, about TEXT)")
        metrics.execute("INSERT INTO answers VALUES (1.0, 0.5, '{}')")
    metrics.close()
    version = paths.adapters / "tiny-drafter" / "0123abcd" / "0001"
    version.mkdir(parents=True)
    (version / "adapter.gguf").write_bytes(lora("Ada"))
    (version / "version.json").write_text(json.dumps({"loss": 1.5}))
    np.savez(version / "head.npz", weight=np.arange(8.0), bias=np.zeros(1))
    return paths


def contents(paths, pair):
    """What the packages find in a profile, for comparing a copy with its original."""
    with ChatStore(paths.chats) as store:
        chats = [store.snapshot(chat.id) for chat in store.conversations()]
    with ReplayStore(paths.replay) as replay:
        answers, last = dict(replay.answers), replay.get(max(replay.answers)).ids.tolist()
    cache = NgramCache.open(paths.ngrams, pair, SETTINGS.cache)
    ngrams = (len(cache), cache.top(20))
    cache.close()
    metrics = sqlite3.connect(paths.metrics)
    rows = metrics.execute("SELECT * FROM answers").fetchall()
    metrics.close()
    files = {
        file.relative_to(paths.adapters).as_posix(): file.read_bytes()
        for file in sorted(paths.adapters.rglob("*"))
        if file.is_file()
    }
    return paths.settings.read_text(), chats, answers, last, ngrams, rows, files
