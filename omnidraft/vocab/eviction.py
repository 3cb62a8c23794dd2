"""Which n-gram goes when the cache is full.

Knows entries only as ids with a rank. Three policies, the lowest rank going first:

lru         last use
lfu         hits, then last use
lfu-aging   LFU with dynamic aging (LFU-DA; Arlitt, Cherkasova, Dilley, Friedrich and Jin, "Evaluating content
            management techniques for Web proxy caches", 2000): key = hits + age at the last use, then last use, where
            age is the key of the latest evicted entry. What was popular long ago thus loses to what is popular now.

Seeded entries rank below every learned one, whatever the policy, the highest target id first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

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
    seeded: bool = False
    sources: list[str] = field(default_factory=list)

    def note(self, source: str | None) -> None:
        """Remember where it came from. Past the cap no more are noted, so that forgetting errs on removal."""
        name = ANONYMOUS if source is None else source
        if name not in self.sources and len(self.sources) < SOURCES_KEPT:
            self.sources.append(name)


def rank(entry: Entry, policy: str) -> Rank:
    """Total order of eviction under `policy`, lowest first."""
    if entry.seeded:
        return (0, -entry.target_id)
    if policy == "lru":
        return (1, entry.last_use)
    if policy == "lfu":
        return (1, entry.hits, entry.last_use)
    return (1, entry.key, entry.last_use)


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
