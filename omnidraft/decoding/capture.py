"""What learning keeps of the target's distribution at a position: its likeliest ids, before any filter.

Finding them takes longer than a small model's arithmetic leaves unnoticed, so rows of small vocabularies are copied
and looked through when somebody asks, which is after the answer.
"""

from __future__ import annotations

import numpy as np

from omnidraft.decoding.events import Candidates
from omnidraft.decoding.topk import top_ids

SMALL = 16_384  # ids; up to here copying a row is cheaper by far, and an answer's rows fit in memory


def candidates_of(row: np.ndarray, ids: np.ndarray, mass: float) -> Candidates:
    """ids: the largest of `row` (V,), largest first; mass: sum of exp(row - row[ids[0]])."""
    logits = row[ids]
    logprobs = logits - logits[0] - np.log(mass)
    return Candidates(ids.astype(np.int32), logprobs, max(0.0, 1.0 - float(np.exp(logprobs).sum())))


class Uncounted:
    """`Candidates` to be: a copy of a row (V,) and how many of its ids are wanted. Worked out once, when read."""

    __slots__ = ("_found", "_row", "_wanted")

    def __init__(self, row: np.ndarray, wanted: int) -> None:
        self._row: np.ndarray | None = row.copy()
        self._wanted = wanted
        self._found: Candidates | None = None

    @property
    def ids(self) -> np.ndarray:
        return self._read().ids

    @property
    def logprobs(self) -> np.ndarray:
        return self._read().logprobs

    @property
    def rest(self) -> float:
        return self._read().rest

    def _read(self) -> Candidates:
        if self._found is None and self._row is not None:
            ids = top_ids(self._row, self._wanted)
            self._found = candidates_of(self._row, ids, float(np.exp(self._row - self._row[ids[0]]).sum()))
            self._row = None
        assert self._found is not None
        return self._found
