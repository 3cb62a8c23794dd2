"""Target ids sorted by their expansion: which ids begin with given drafter pieces, as one range each.

Rejection sampling in the drafter's vocabulary needs, at a node (pieces accepted so far), the target's mass on
tokens that are exactly the node, that go on, and that go on with a given piece. Sorted by expansion each of these
is a contiguous range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NO_PIECE = 1 << 30  # the "expansion" of ids that have none: the drafter never draws it


@dataclass(frozen=True, slots=True)
class Node:
    """Ids whose expansion begins with `pieces`: order[low:high]; exactly `pieces`: order[low:inner]."""

    pieces: tuple[int, ...]
    low: int
    inner: int
    high: int


class ExpansionTree:
    """Built once per pair of vocabularies; nodes are found by bisection and remembered.

    ids: (n,) the target ids in order of their expansions; every id that can be sampled is in it once.
    """

    def __init__(self, expansions: Sequence[tuple[int, ...]]) -> None:
        self.expansions = [e or (NO_PIECE, t) for t, e in enumerate(expansions)]
        self.ids = np.array(sorted(range(len(expansions)), key=self.expansions.__getitem__), np.int64)
        self._keys = [self.expansions[t] for t in self.ids]
        self.root = Node((), 0, 0, len(self._keys))
        self._children: dict[tuple[int, ...], Node] = {}

    def child(self, node: Node, piece: int) -> Node:
        """The node behind `node` + `piece`; an empty range if no target id begins so."""
        pieces = (*node.pieces, piece)
        found = self._children.get(pieces)
        if found is None:
            low = bisect_left(self._keys, pieces, node.low, node.high)
            inner = bisect_left(self._keys, (*pieces, -1), low, node.high)
            high = bisect_left(self._keys, (*node.pieces, piece + 1), inner, node.high)
            found = self._children[pieces] = Node(pieces, low, inner, high)
        return found

    def next_piece(self, node: Node, target_id: int) -> int:
        """The piece behind `node` in the expansion of an id that goes on behind it."""
        return self.expansions[target_id][len(node.pieces)]

    def exact(self, node: Node) -> np.ndarray:
        return self.ids[node.low : node.inner]

    def longer(self, node: Node) -> np.ndarray:
        return self.ids[node.inner : node.high]
