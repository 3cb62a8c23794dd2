"""Cached n-grams as a trie over drafter pieces.

Knows ids only. A node is a dict from piece to node; under the key END it holds the target id whose expansion ends
there. Plain dicts keep a lookup below a microsecond, and it runs for every drafted piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

END = -1
Node = dict[int, Any]  # of nodes, and a target id under END


class Trie:
    """Longest-match lookup of piece sequences."""

    def __init__(self) -> None:
        self._root: Node = {}

    def insert(self, pieces: Sequence[int], target_id: int) -> None:
        node = self._root
        for piece in pieces:
            node = node.setdefault(piece, {})
        node[END] = target_id

    def remove(self, pieces: Sequence[int]) -> None:
        """Take out a sequence that is in the trie, and the nodes only it needed."""
        path = [self._root]
        for piece in pieces:
            path.append(path[-1][piece])
        del path[-1][END]
        for piece, parent, node in zip(reversed(pieces), reversed(path[:-1]), reversed(path[1:]), strict=True):
            if node:
                return
            del parent[piece]

    def matches(self, pieces: Sequence[int], start: int) -> list[tuple[int, int]]:
        """(length, target id) of every stored sequence that `pieces` holds at `start`, longest first.

        Stored sequences are two ids or longer, so a single piece never matches; `start` < len(pieces).
        """
        found: list[tuple[int, int]] = []
        node = self._root.get(pieces[start])
        if node is None:  # by far the most frequent case
            return found
        for position in range(start + 1, len(pieces)):
            node = node.get(pieces[position])
            if node is None:
                break
            target_id = node.get(END)
            if target_id is not None:
                found.append((position - start + 1, target_id))
        found.reverse()
        return found

    def could_grow(self, pieces: Sequence[int], start: int) -> bool:
        """Whether `pieces[start:]`, not empty, is a proper prefix of a stored sequence."""
        node: Any = self._root
        for position in range(start, len(pieces)):
            node = node.get(pieces[position])
            if node is None:
                return False
        return start < len(pieces) and len(node) > (END in node)

    def beginning(self, pieces: Sequence[int]) -> list[int]:
        """Target ids of every stored sequence that begins with `pieces`."""
        node: Any = self._root
        for piece in pieces:
            node = node.get(piece)
            if node is None:
                return []
        found: list[int] = []
        waiting = [node]
        while waiting:
            node = waiting.pop()
            found += [child for piece, child in node.items() if piece == END]
            waiting += [child for piece, child in node.items() if piece != END]
        return found
