"""The n-gram cache of one (drafter, target) vocabulary pair: what merging consults (paper, section 3.1).

An entry is a target token and its expansion in drafter pieces. Learned online from verified tokens, kept in SQLite
once per answer, looked up in a trie in memory. Knows no models.

Seeding (ours): what was not learned yet, the two vocabularies say themselves (`PairMap.merges`), so that the first
answer merges as the hundredth does. Then the cache tells which of several tokens are said, and how often.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from omnidraft.errors import StorageError
from omnidraft.settings.config import CacheSettings
from omnidraft.vocab.exact import Trie
from omnidraft.vocab.pair_map import Merges, PairMap

if TYPE_CHECKING:
    from omnidraft.vocab.ngram_store import NgramStore

log = logging.getLogger(__name__)
ENTRY_BYTES, PIECE_BYTES = 500, 150  # measured memory of an entry and of each of its pieces (trie nodes included)
MEGABYTE = 1_000_000
_ROW_TYPES = [int, int, int, list, list]  # hits, last use, key, pieces, sources


class NgramCache:
    """Create it with `open`. Changes are thread-safe; lookups take no lock and see each change whole or not at all."""

    def __init__(self, pair: PairMap, settings: CacheSettings, store: NgramStore | None):
        self.pair, self.settings = pair, settings
        self._store = store
        self._lock = RLock()
        self._entries: dict[int, Entry] = {}
        self._trie = self._learned = Trie()  # what is looked in: nothing while the cache is off
        self._merges: Merges | None = None
        self._order = EvictionOrder(settings.policy)
        self._bytes = self._tick = self._age = 0
        self._hits = self._lookups = self._evictions = 0
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        self._load()
        self._apply(settings)

    @classmethod
    def open(cls, path: Path | None, pair: PairMap, settings: CacheSettings) -> NgramCache:
        """Read the pair's table of the file at `path`, None for memory only. StorageError if it cannot be trusted."""
        table = f"ngrams_{pair.drafter.fingerprint[:20]}_{pair.target.fingerprint[:20]}"
        if path is None:
            return cls(pair, settings, None)
        from omnidraft.vocab.ngram_store import NgramStore  # only here: the engine works without SQLite

        return cls(pair, settings, NgramStore(Path(path), table))

    def __len__(self) -> int:
        return len(self._entries)

    def matches(self, pieces: Sequence[int], start: int) -> list[tuple[int, int]]:
        """(length, target id) of every known n-gram that `pieces` holds at `start`, longest first."""
        found = self._learned.matches(pieces, start)
        if self._merges is not None and (known := self._merges.matches(pieces, start)):
            return sorted({*found, *known}, reverse=True) if found else known
        return found

    def could_grow(self, pieces: Sequence[int], start: int) -> bool:
        """Whether `pieces[start:]` is a proper prefix of a known n-gram."""
        known = self._merges is not None and self._merges.could_grow(pieces, start)
        return known or self._learned.could_grow(pieces, start)

    def through(self, pieces: Sequence[int], most: int) -> list[tuple[int, float]]:
        """(target id, weight) of the `most` heaviest known n-grams that begin with `pieces`, heaviest first."""
        known = self._merges.beginning(pieces) if self._merges is not None else []
        tokens = dict.fromkeys([*self._learned.beginning(pieces), *known])
        return sorted(((token, self.weight(token)) for token in tokens), key=lambda item: -item[1])[:most]

    def weight(self, target_id: int) -> float:
        """For choosing between n-grams: its hits; 0.5 for one that the vocabularies know and nobody said yet."""
        entry = self._entries.get(target_id)
        return float(entry.hits) if entry is not None else 0.5 * self.settings.seed

    def learn(self, target_id: int, source: str | None = None) -> None:
        """A verified target token: insert its n-gram, or count a hit. Tokens of one piece are ignored.

        source: the conversation it came from, so that it can be forgotten with that (`profiles/forget.py`).
        """
        target_id = self.pair.target.preferred(target_id)
        if not self.settings.enabled or len(self.pair.expansions[target_id]) < 2:
            return
        with self._lock:
            self._lookups += 1
            self._tick += 1
            entry = self._entries.get(target_id)
            if entry is None:
                entry = self._admit(target_id)
                if entry is None:
                    return
            else:
                self._hits += 1
            entry.hits += 1
            entry.last_use = self._tick
            entry.key = entry.hits + self._age
            entry.note(source)
            self._order.place(entry)
            self._changed.add(target_id)
            self._gone.discard(target_id)

    def commit(self) -> None:
        """Write what changed since the last commit in one transaction. StorageError if it cannot be written."""
        with self._lock:
            if self._store is None or not (self._changed or self._gone):
                return
            changed = [(self._entries[token], list(self.pair.expansions[token])) for token in self._changed]
            rows = [(e.target_id, [e.hits, e.last_use, e.key, pieces, e.sources]) for e, pieces in changed]
            self._store.write(rows, self._gone, {"age": self._age})
            self._changed.clear()
            self._gone.clear()

    def resize(self, settings: CacheSettings) -> None:
        """Take new settings at once: evict down to a smaller capacity."""
        with self._lock:
            if settings.policy != self.settings.policy:
                self._order = EvictionOrder(settings.policy)
                for entry in self._entries.values():
                    self._order.place(entry)
            self._apply(settings)

    def clear(self) -> None:
        """Forget everything, in the file as well."""
        with self._lock:
            for token in [*self._entries]:
                self._remove(token)
            self.commit()
            if self._store is not None:
                self._store.purge()

    def close(self) -> None:
        """Commit and release the file. What cannot be written then is lost: it is worth some speed, no more."""
        with self._lock:
            for step in (self.commit, self._store.close) if self._store is not None else ():
                try:
                    step()
                except StorageError as error:
                    log.warning("%s", error)
            self._store = None

    def stats(self) -> dict[str, Any]:
        """Counts; bytes as the MB capacity counts them; hits of lookups = emitted n-gram tokens that were cached;
        evictions: entries that there was no room for."""
        with self._lock:
            return {
                "entries": len(self._entries),
                "bytes": self._bytes,
                "hits": self._hits,
                "lookups": self._lookups,
                "hit_rate": self._hits / self._lookups if self._lookups else None,
                "evictions": self._evictions,
                "capacity": self.settings.capacity,
                "unit": self.settings.unit,
                "policy": self.settings.policy,
            }

    def top(self, n: int) -> list[tuple[bytes, int, tuple[int, ...]]]:
        """(bytes, hits, pieces) of the n entries with the most hits, the later used first among equals."""
        with self._lock:
            best = sorted(self._entries.values(), key=lambda entry: (-entry.hits, -entry.last_use, entry.target_id))[:n]
        return [(self.pair.target.pieces[e.target_id], e.hits, self.pair.expansions[e.target_id]) for e in best]

    def _apply(self, settings: CacheSettings) -> None:
        self.settings = settings
        self._learned = self._trie if settings.enabled else Trie()
        self._merges = self.pair.merges if settings.enabled and settings.seed else None
        while not self._fits(0):
            self._evict()

    def _admit(self, target_id: int) -> Entry | None:
        """Make room for an n-gram and insert it; None if it is larger than the whole cache."""
        size = self._size(target_id)
        if self.settings.unit == "MB" and size > self.settings.capacity * MEGABYTE:
            return None
        while not self._fits(size):
            self._evict()
        return self._insert(Entry(target_id, size))

    def _fits(self, size: int) -> bool:
        """Whether an entry of `size` bytes fits beside those there are; 0 asks whether these fit themselves."""
        if self.settings.unit == "MB":
            return self._bytes + size <= self.settings.capacity * MEGABYTE
        return len(self._entries) + (size > 0) <= self.settings.capacity

    def _evict(self) -> None:
        target_id = self._order.lowest()
        assert target_id is not None, "the cache counts entries that its eviction order does not know"
        entry = self._entries[target_id]
        if self.settings.policy == "lfu-aging":
            self._age = entry.key
        self._evictions += 1
        self._remove(target_id)

    def _insert(self, entry: Entry) -> Entry:
        self._entries[entry.target_id] = entry
        self._bytes += entry.size
        self._trie.insert(self.pair.expansions[entry.target_id], entry.target_id)
        return entry

    def _remove(self, target_id: int) -> None:
        entry = self._entries.pop(target_id)
        self._bytes -= entry.size
        self._order.discard(target_id)
        self._trie.remove(self.pair.expansions[target_id])
        self._changed.discard(target_id)
        self._gone.add(target_id)

    def _size(self, target_id: int) -> int:
        return ENTRY_BYTES + PIECE_BYTES * len(self.pair.expansions[target_id])

    def _load(self) -> None:
        if self._store is None:
            return
        age = self._store.meta.get("age", 0)
        self._age = age if isinstance(age, int) else 0
        for target_id, row in self._store.rows:
            if not (isinstance(row, list) and self._restore(target_id, row)):
                self._gone.add(target_id)
        self._store.rows = []

    def _restore(self, target_id: int, row: list) -> bool:
        """Take a stored entry in; False if it is not the n-gram that this pair has for the token."""
        if [type(part) for part in row] != _ROW_TYPES or not 0 <= target_id < self.pair.target.size:
            return False
        hits, last_use, key, pieces, sources = row
        if len(pieces) < 2 or tuple(pieces) != self.pair.expansions[target_id]:
            return False
        if self.pair.target.preferred(target_id) != target_id or not all(type(name) is str for name in sources):
            return False
        entry = Entry(target_id, self._size(target_id), hits, last_use, key, sources)
        self._order.place(self._insert(entry))
        self._tick = max(self._tick, last_use)
        return True


Rank = tuple[int, ...]


SOURCES_KEPT = 8


ANONYMOUS = ""  # an entry learned without a source is never forgotten together with one


@dataclass(slots=True)
class Entry:
    """One n-gram. size in bytes; last_use: tick of the cache's clock; key: hits + age at the last use (lfu-aging);
    sources: the conversations it was learned from.
    """

    target_id: int
    size: int
    hits: int = 0
    last_use: int = 0
    key: int = 0
    sources: list[str] = field(default_factory=list)

    def note(self, source: str | None) -> None:
        """Remember where it came from. Past the cap no more are noted, so that forgetting errs on removal."""
        name = ANONYMOUS if source is None else source
        if name not in self.sources and len(self.sources) < SOURCES_KEPT:
            self.sources.append(name)


def rank(entry: Entry, policy: str) -> Rank:
    """Total order of eviction under `policy`, lowest first."""
    if policy == "lru":
        return (entry.last_use,)
    if policy == "lfu":
        return (entry.hits, entry.last_use)
    if policy == "lfu-aging":
        return (entry.key, entry.last_use)
    raise ValueError(f"no such policy: {policy}")


class EvictionOrder:
    """Entries by rank in a heap.

    A touched entry is pushed again and its old place skipped later, which makes every operation O(log n), amortized.
    """

    def __init__(self, policy: str):
        self.policy = policy
        self._heap: list[tuple[Rank, int]] = []
        self._ranks: dict[int, Rank] = {}

    def place(self, entry: Entry) -> None:
        """Add an entry or move it to where it belongs now."""
        place = rank(entry, self.policy)
        self._ranks[entry.target_id] = place
        heappush(self._heap, (place, entry.target_id))
        if len(self._heap) > 2 * len(self._ranks) + 64:
            self._heap = [(place, target_id) for target_id, place in self._ranks.items()]
            heapify(self._heap)

    def discard(self, target_id: int) -> None:
        self._ranks.pop(target_id, None)

    def lowest(self) -> int | None:
        """Target id of the entry to go next; None if there is none."""
        while self._heap:
            place, target_id = self._heap[0]
            if self._ranks.get(target_id) == place:
                return target_id
            heappop(self._heap)
        return None
