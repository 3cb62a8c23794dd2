"""How each target token is written in the drafter's pieces, as arrays the training process can load alone.

A copy of what the vocabulary pair knows, without its tokenizers: the trainer needs neither llama.cpp nor a model's
vocabulary to read a replay. It knows nothing of text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omnidraft.errors import StorageError
from omnidraft.storage.files import pack_arrays, read_arrays, write_atomically

if TYPE_CHECKING:
    from omnidraft.vocab import PairMap

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class ExpansionTable:
    """E(t) for V target tokens over D drafter pieces.

    flat: all expansions behind one another, (sum of lengths,) int32; offsets: (V + 1,) int64, E(t) is
    flat[offsets[t]:offsets[t + 1]], empty for tokens without one; every target end-of-generation id has the drafter's
    as its expansion. direct: target id with a piece's bytes, (D,) int32, -1 if there is none.
    """

    drafter_fingerprint: str
    target_fingerprint: str
    flat: np.ndarray
    offsets: np.ndarray
    direct: np.ndarray

    @classmethod
    def from_pair(cls, pair: PairMap) -> ExpansionTable:
        lengths = np.fromiter((len(e) for e in pair.expansions), np.int64, len(pair.expansions))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        flat = np.fromiter((d for e in pair.expansions for d in e), np.int32, int(offsets[-1]))
        prints = pair.drafter.fingerprint, pair.target.fingerprint
        return cls(*prints, flat, offsets, np.asarray(pair.direct, np.int32))

    def save(self, path: Path) -> None:
        prints = np.array([self.drafter_fingerprint, self.target_fingerprint])
        arrays = {"prints": prints, "flat": self.flat, "offsets": self.offsets, "direct": self.direct}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pack_arrays(arrays, compressed=True))

    @classmethod
    def load(cls, path: Path) -> ExpansionTable:
        """StorageError if the file is missing or damaged."""
        try:
            data = read_arrays(path)
            drafter, target = map(str, data["prints"])
            return cls(drafter, target, data["flat"], data["offsets"], data["direct"])
        except (ValueError, KeyError) as error:
            raise StorageError(f"the expansion table {path} cannot be read: {error}") from error

    def __getitem__(self, target_id: int) -> tuple[int, ...]:
        return tuple(map(int, self.flat[self.offsets[target_id] : self.offsets[target_id + 1]]))

    @property
    def target_size(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """(V,) int64: |E(t)|."""
        return np.diff(self.offsets)

    def rows(self, target_ids: np.ndarray, width: int) -> np.ndarray:
        """First `width` pieces of each token's expansion, -1 behind its end. (..., width) int32."""
        at = self.offsets[target_ids][..., None] + np.arange(width)
        inside = np.arange(width) < self.lengths[target_ids][..., None]
        if not len(self.flat):
            return np.full(at.shape, -1, np.int32)
        return np.where(inside, self.flat[np.minimum(at, len(self.flat) - 1)], -1).astype(np.int32)

    @cached_property
    def aliases(self) -> np.ndarray:
        """(D, A) int32: the pieces that map directly to the same target token as piece d, d first, -1 behind them."""
        pieces = np.flatnonzero(self.direct >= 0)
        order = pieces[np.argsort(self.direct[pieces], kind="stable")]
        groups = np.split(order, np.flatnonzero(np.diff(self.direct[order])) + 1) if len(order) else []
        table = np.full((len(self.direct), max((len(g) for g in groups), default=1)), -1, np.int32)
        table[:, 0] = np.arange(len(self.direct))
        for group in groups:
            if len(group) > 1:
                for d in group:
                    table[d, 1 : len(group)] = group[group != d]
        return table

    @cached_property
    def _passing(self) -> tuple[np.ndarray, np.ndarray]:
        """Sorted hashes of all proper prefixes (length >= 1) of all expansions, and how many tokens pass each."""
        hashes, width = [], int(self.lengths.max(initial=0))
        running = np.zeros(self.target_size, np.uint64)
        for j in range(width - 1):
            longer = self.lengths > j + 1
            here = np.where(longer, self.offsets[:-1] + j, 0)
            running = _extend_hash(running, self.flat[here])
            hashes.append(running[longer])
        joined = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
        return np.unique(joined, return_counts=True)

    def passing(self, prefixes: np.ndarray) -> np.ndarray:
        """How many target tokens have an expansion that starts with each prefix and is longer. (N, j) -> (N,) int64."""
        if prefixes.shape[1] == 0:
            return np.full(len(prefixes), int((self.lengths > 0).sum()))
        running = np.zeros(len(prefixes), np.uint64)
        for column in prefixes.T:
            running = _extend_hash(running, column)
        keys, counts = self._passing
        if not len(keys):
            return np.zeros(len(prefixes), np.int64)
        at = np.minimum(np.searchsorted(keys, running), len(keys) - 1)
        return np.where(keys[at] == running, counts[at], 0)


def _extend_hash(running: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    mixed = (running ^ (pieces.astype(np.uint64) + np.uint64(1))) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


def table_file(cache: Path, pair: PairMap) -> Path:
    """The file of the table to learn with; written if missing."""
    drafter, target = pair.drafter.fingerprint, pair.target.fingerprint
    own = cache / "expansions" / f"{drafter[:20]}-{target}.npz"
    if not own.is_file():
        ExpansionTable.from_pair(pair).save(own)
    return own
