"""The n-gram cache: which entry goes, what survives, what is refused, what is forgotten."""

import json
import os
import sqlite3
from contextlib import closing

import pytest
from sqlitedict import SqliteDict

from omnidraft.errors import StorageError
from omnidraft.settings.config import CacheSettings
from omnidraft.vocab import NgramCache
from tests.vocab.conftest import pair_map


@pytest.fixture
def pair():
    return pair_map("tiny-drafter", "tiny-target-a")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "profile" / "ngrams.sqlite"


def ids(pair, count: int) -> list[int]:
    return [t for t, pieces in enumerate(pair.expansions) if len(pieces) > 1][:count]


def learned(cache: NgramCache) -> set[int]:
    return {token for token, entry in cache._entries.items() if not entry.seeded}


def stored(path, pair) -> set[int]:
    """What was learned, as it is in the file."""
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    cache.close()
    return learned(cache)


def table_of(connection: sqlite3.Connection) -> str:
    return connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'ngrams_%'").fetchone()[0]


@pytest.mark.parametrize(("policy", "stays"), [("lru", False), ("lfu", True), ("lfu-aging", False)])
def test_what_was_used_often_long_ago_leaves_where_counts_age_also_over_restarts(pair, path, policy, stays):
    often, *once = ids(pair, 400)[:8]
    for tokens in ((often, often, often), *((token,) for token in once)):
        cache = NgramCache.open(path, pair, CacheSettings(capacity=2, policy=policy, seed=False))
        for token in tokens:
            cache.learn(token)
        cache.close()
    assert stored(path, pair) == ({often, once[-1]} if stays else set(once[-2:]))


def test_what_a_smaller_cache_has_no_room_for_counts_as_evicted():
    pair = pair_map("tiny-drafter", "tiny-target-a")
    cache = NgramCache.open(None, pair, CacheSettings(capacity=100))
    assert cache.stats()["seeded"] == 100
    cache.learn(ids(pair, 400)[-1])
    assert cache.stats()["evictions"] == 0, "a seed made room"
    cache.resize(CacheSettings(capacity=30))
    assert (cache.stats()["entries"], cache.stats()["evictions"]) == (30, 70)
    cache.resize(CacheSettings(capacity=60))
    assert cache.stats()["evictions"] == 70


def test_nothing_is_learned_of_single_pieces_and_ends_or_while_the_cache_is_off(pair):
    cache = NgramCache.open(None, pair, CacheSettings(seed=False))
    for token in (pair.target.by_bytes[b" the"], pair.target.eos, pair.target.bos):
        cache.learn(token)
    assert len(cache) == cache.stats()["lookups"] == 0
    first, second = ids(pair, 2)
    cache.learn(first)
    for enabled in (False, True):
        cache.resize(CacheSettings(enabled=enabled, seed=False))
        assert bool(cache.matches(pair.expansions[first], 0)) is enabled
        if not enabled:
            cache.learn(second)
    assert learned(cache) == {first}


def test_pairs_share_a_file_but_no_entries(path):
    pairs = [pair_map("tiny-drafter", f"tiny-target-{x}") for x in "ab"]
    caches = [NgramCache.open(path, pair, CacheSettings(seed=False)) for pair in pairs]
    for cache, pair, count in zip(caches, pairs, (3, 5), strict=True):
        for token in ids(pair, count):
            cache.learn(token)
        cache.commit()
    for cache in caches:
        cache.close()
    assert [len(stored(path, pair)) for pair in pairs] == [3, 5]


class Bomb:
    def __reduce__(self):
        return (os.mkdir, (os.environ["BOMB"],))


@pytest.mark.parametrize("in_our_table", [True, False])
def test_a_database_holding_a_pickle_is_refused_and_not_loaded(pair, path, tmp_path, monkeypatch, in_our_table):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    path.parent.mkdir()
    table = f"ngrams_{pair.drafter.fingerprint[:20]}_{pair.target.fingerprint[:20]}"
    with SqliteDict(str(path), tablename=table if in_our_table else "unnamed") as foreign:
        foreign["17"] = Bomb()
        foreign.commit()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="pickle"):
        NgramCache.open(path, pair, CacheSettings())
    assert not (tmp_path / "exploded").exists()
    assert path.read_bytes() == before


def test_files_that_are_no_cache_are_refused_in_one_sentence(pair, path, tmp_path, capfd):
    path.parent.mkdir()
    path.write_bytes(b"this is not a database" * 100)
    blocked = tmp_path / "file"
    blocked.write_text("")
    for bad in (path, blocked / "ngrams.sqlite", tmp_path):
        with pytest.raises(StorageError) as refusal:
            NgramCache.open(bad, pair, CacheSettings())
        assert "\n" not in str(refusal.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", ["{", "[1, 2", '"x"', "[1,1,1,[1,2],[]],[1", "[[[", "17", "[]"])
def test_tampered_rows_are_refused_or_dropped(pair, path, value):
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    for token in ids(pair, 5):
        cache.learn(token)
    cache.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f'UPDATE "{table_of(connection)}" SET value = ? WHERE key = ?', (value, str(ids(pair, 1)[0]))
        )
        connection.commit()
    try:
        cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    except StorageError:
        return
    json.loads(value)  # only well-formed values may get this far
    assert learned(cache) == set(ids(pair, 5)[1:])
    cache.close()


@pytest.mark.timeout(60)
def test_a_writer_thread_that_dies_meanwhile_is_an_error_and_not_a_hang(pair, path, monkeypatch, caplog):
    monkeypatch.setattr("omnidraft.storage.dict_table.ANSWER_SECONDS", 1e9)  # it is its death that ends the wait
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    monkeypatch.setattr(type(cache._store._table), "alive", True)
    cache._store._table.conn.close()
    cache.learn(ids(pair, 1)[0])
    with pytest.raises(StorageError, match="does not answer"):
        cache.commit()
    cache.close()
    assert "does not answer" in caplog.text


def test_forgetting_a_conversation_removes_what_only_it_taught(pair, path):
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    tokens = ids(pair, 40)
    for token in tokens[:20]:
        cache.learn(token, "secret-chat")
    for token in tokens[10:30]:
        cache.learn(token, "other-chat")
    cache.learn(tokens[0])
    cache.commit()
    assert cache.forget("secret-chat") == 9
    assert learned(cache) == {tokens[0], *tokens[10:30]}
    for file in path.parent.iterdir():
        assert b"secret-chat" not in file.read_bytes(), file
    cache.learn(tokens[35], "new-chat")
    cache.close()
    again = NgramCache.open(path, pair, CacheSettings(seed=False))
    assert learned(again) == {tokens[0], tokens[35], *tokens[10:30]}
    assert again.forget(entries=[tokens[0], 1]) == 1
    again.close()


def test_clearing_leaves_only_seeds(pair, path):
    cache = NgramCache.open(path, pair, CacheSettings(capacity=30))
    for token in ids(pair, 200)[100:120]:
        cache.learn(token, "a")
    cache.commit()
    cache.clear()
    assert cache.stats()["seeded"] == len(cache) == 30
    cache.close()
    assert not stored(path, pair)
