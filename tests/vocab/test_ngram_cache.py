"""The n-gram cache: which entry goes, what survives, what is refused, what is forgotten."""

import json
import os
import sqlite3
from contextlib import closing
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlitedict import SqliteDict

from omnidraft.errors import StorageError
from omnidraft.settings.config import CacheSettings, describe
from omnidraft.vocab import NgramCache
from tests.vocab.conftest import pair_map

POLICIES = next(s.rule.choices for s in describe(CacheSettings) if s.name == "policy")


@pytest.fixture
def pair():
    return pair_map("tiny-drafter", "tiny-target-a")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "profile" / "ngrams.sqlite"


def ids(pair, count: int) -> list[int]:
    return [t for t, pieces in enumerate(pair.expansions) if len(pieces) > 1][:count]


def learned(cache: NgramCache) -> set[int]:
    return {*cache._entries}


def stored(path, pair) -> set[int]:
    """What was learned, as it is in the file."""
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    cache.close()
    return learned(cache)


def table_of(connection: sqlite3.Connection) -> str:
    return connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'ngrams_%'").fetchone()[0]


class BruteForce:
    """The same rules written as plainly as possible: sort everything at each eviction."""

    def __init__(self, pair, sizes, settings):
        self.pair, self.sizes = pair, sizes
        self.entries: dict[int, dict] = {}
        self.tick = self.age = 0
        self.resize(settings)

    def used(self) -> int:
        mb = self.settings.unit == "MB"
        return sum(self.sizes(t) for t in self.entries) if mb else len(self.entries)

    def cost(self, token) -> int:
        return self.sizes(token) if self.settings.unit == "MB" else 1

    def limit(self) -> int:
        return self.settings.capacity * (3000 if self.settings.unit == "MB" else 1)

    def evict(self) -> None:
        def order(item):
            _, entry = item
            keys = {"lru": [], "lfu": [entry["hits"]], "lfu-aging": [entry["key"]]}[self.settings.policy]
            return (*keys, entry["used"])

        token, entry = sorted(self.entries.items(), key=order)[0]
        if self.settings.policy == "lfu-aging":
            self.age = entry["key"]
        del self.entries[token]

    def resize(self, settings) -> None:
        self.settings = settings
        while self.used() > self.limit():
            self.evict()

    def learn(self, token) -> None:
        self.tick += 1
        if token not in self.entries:
            if self.cost(token) > self.limit():
                return
            while self.used() + self.cost(token) > self.limit():
                self.evict()
            self.entries[token] = {"hits": 0}
        entry = self.entries[token]
        entry["hits"] += 1
        entry.update(used=self.tick, key=entry["hits"] + self.age)


cache_settings = st.builds(
    CacheSettings,
    capacity=st.integers(1, 6),
    unit=st.sampled_from(["entries", "MB"]),
    policy=st.sampled_from(POLICIES),
    seed=st.just(False),
)


@settings(max_examples=150, deadline=None)
@given(first=cache_settings, steps=st.lists(st.one_of(st.integers(0, 25), cache_settings), max_size=80))
@patch("omnidraft.vocab.ngram_cache.MEGABYTE", 3000)
def test_eviction_follows_the_brute_force_model(first, steps):
    pair = pair_map("tiny-drafter", "tiny-target-a")
    tokens = ids(pair, 400)[::15]
    cache = NgramCache.open(None, pair, first)
    model = BruteForce(pair, cache._size, first)
    for step in steps:
        if isinstance(step, int):
            cache.learn(tokens[step])
            model.learn(tokens[step])
        else:
            cache.resize(step)
            model.resize(step)
        assert {t: e.hits for t, e in cache._entries.items()} == {t: e["hits"] for t, e in model.entries.items()}
        stats = cache.stats()
        assert stats["entries"] == len(model.entries)
        assert stats["bytes"] == sum(cache._size(t) for t in model.entries)
    found = {token for token in ids(pair, 400) if (len(pair.expansions[token]), token) in _matches(cache, pair, token)}
    assert found == set(cache._entries) & set(ids(pair, 400))


def _matches(cache, pair, token):
    return cache.matches(pair.expansions[token], 0)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.integers(0, 25), min_size=1, max_size=60), policy=st.sampled_from(POLICIES))
def test_what_is_there_and_goes_first_survives_a_restart(tmp_path_factory, steps, policy):
    pair = pair_map("tiny-drafter", "tiny-target-a")
    tokens = ids(pair, 400)[::15]
    path = tmp_path_factory.mktemp("cache") / "ngrams.sqlite"
    settings_ = CacheSettings(capacity=5, policy=policy)
    model = BruteForce(pair, len, settings_)
    for start in range(0, len(steps), 20):
        cache = NgramCache.open(path, pair, settings_)
        for step in steps[start : start + 20]:
            cache.learn(tokens[step])
            model.learn(tokens[step])
        cache.close()
    cache = NgramCache.open(path, pair, settings_)
    assert {t: e.hits for t, e in cache._entries.items()} == {t: e["hits"] for t, e in model.entries.items()}
    cache.close()


def test_turning_seeding_or_the_cache_off_takes_effect_at_once(pair):
    said, unsaid = ids(pair, 2)
    cache = NgramCache.open(None, pair, CacheSettings(capacity=50))
    cache.learn(said)
    known = lambda: [bool(_matches(cache, pair, token)) for token in (said, unsaid)]  # noqa: E731
    assert known() == [True, True]
    cache.resize(CacheSettings(capacity=50, seed=False))
    assert known() == [True, False]
    cache.resize(CacheSettings(capacity=50, enabled=False))
    assert known() == [False, False]
    cache.learn(unsaid)
    assert learned(cache) == {said}
    cache.resize(CacheSettings(capacity=50))
    assert known() == [True, True]


def test_what_was_learned_and_what_the_vocabularies_know_is_found_together(pair):
    """Against looking through all of them; n-grams too long to be known before they are learned among them."""
    cache = NgramCache.open(None, pair, CacheSettings())
    long = [token for token, pieces in enumerate(pair.expansions) if len(pieces) > 4]
    for token in long[::2]:
        cache.learn(token)
    known = {pair.expansions[t]: t for t in ids(pair, 10**6) if len(pair.expansions[t]) <= 4 or t in long[::2]}
    assert len(long) > 10
    for token in [*ids(pair, 10**6)[::7], *long]:
        text = (*pair.expansions[token], 5, 6)
        found = [(n, known[text[:n]]) for n in range(len(text), 1, -1) if text[:n] in known]
        assert cache.matches(text, 0) == found
        for n in range(1, len(text) + 1):
            grows = any(pieces[:n] == text[:n] and len(pieces) > n for pieces in known)
            assert cache.could_grow(text[:n], 0) == grows
            behind = {t for pieces, t in known.items() if pieces[:n] == text[:n]}
            through = cache.through(text[:n], 6)
            assert {t for t, _ in through} <= behind
            assert len(through) == min(len(behind), 6)
            weights = sorted(map(cache.weight, behind), reverse=True)[:6]
            assert [weight for _, weight in through] == weights, "the heaviest, in order"


def test_weights_follow_hits(pair):
    seed, twice, never = ids(pair, 3)
    cache = NgramCache.open(None, pair, CacheSettings(capacity=2))
    cache.learn(twice)
    cache.learn(twice)
    assert [cache.weight(token) for token in (seed, twice)] == [0.5, 2.0]
    cache.resize(CacheSettings(capacity=2, seed=False))
    assert cache.weight(never) == 0.0
    assert cache.top(1) == [(pair.target.pieces[twice], 2, pair.expansions[twice])]
    assert cache.stats()["hit_rate"] == 0.5


def test_single_pieces_and_ends_of_generation_are_not_learned(pair):
    cache = NgramCache.open(None, pair, CacheSettings(seed=False))
    for token in (pair.target.by_bytes[b" the"], pair.target.eos, pair.target.bos):
        cache.learn(token)
    assert len(cache) == cache.stats()["lookups"] == 0


def test_evicted_entries_leave_the_file(pair, path):
    cache = NgramCache.open(path, pair, CacheSettings(capacity=10, seed=False))
    for token in ids(pair, 30):
        cache.learn(token)
        cache.commit()
    cache.close()
    with closing(sqlite3.connect(path)) as connection:
        keys = {key for (key,) in connection.execute(f'SELECT key FROM "{table_of(connection)}"')}
    assert keys == {str(token) for token in ids(pair, 30)[20:]} | {"meta"}


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


def test_a_failing_commit_is_an_error_and_not_a_hang(pair, path, capfd):
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    cache.learn(ids(pair, 1)[0])
    cache._store._table.conn.execute("PRAGMA max_page_count = 3")  # as a full disk
    for token in ids(pair, 2000):
        cache.learn(token)
    with pytest.raises(StorageError, match="full"):
        cache.commit()
    assert len(cache) == 2000
    assert capfd.readouterr().err == ""


def test_a_locked_file_is_an_error_and_the_entries_are_written_later(pair, path):
    cache = NgramCache.open(path, pair, CacheSettings(seed=False))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache._store._table.conn.execute("PRAGMA busy_timeout = 50")
        for token in ids(pair, 40):
            cache.learn(token)
        with pytest.raises(StorageError, match="locked"):
            cache.commit()
        other.execute("ROLLBACK")
    cache.close()
    assert len(stored(path, pair)) == 40


def test_clearing_leaves_nothing_and_no_trace_in_the_file(pair, path):
    cache = NgramCache.open(path, pair, CacheSettings(capacity=30))
    for token in ids(pair, 200)[100:120]:
        cache.learn(token, "secret-chat")
    cache.commit()
    cache.clear()
    assert len(cache) == 0
    for file in path.parent.iterdir():
        assert b"secret-chat" not in file.read_bytes(), file
    cache.close()
    assert not stored(path, pair)
