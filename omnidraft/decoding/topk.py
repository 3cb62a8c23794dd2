"""The largest few of a vocabulary-sized row, without sorting or partitioning all of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_COLUMNS = 64


def top_ids(row: np.ndarray, k: int) -> np.ndarray:
    """Ids of the k largest entries of `row` (V,), largest first; equal values by lower id. Shape (min(k, V),).

    The row is seen as a matrix; the k-th largest of its column maxima is a lower bound for the k-th largest entry
    (k columns hold at least one entry each that is as large), so only entries at or above it need sorting.
    """
    n = row.shape[0]
    k = min(k, n)
    width = max(k * 8, n // _COLUMNS)
    rows = n // width
    if rows < 2:
        found = np.arange(n)
    else:
        maxima = row[: rows * width].reshape(rows, width).max(axis=0)
        threshold = np.partition(maxima, width - k)[width - k]
        found = np.flatnonzero(row >= threshold)
    order = np.argsort(-row[found], kind="stable")[:k]
    return found[order]


# Log probabilities of what was said, for those who ask: the target's own, at temperature 1, before any penalty, filter
# or grammar. They are read off the row that the token is drawn from, so a drafter has no part in them.


@dataclass(frozen=True, slots=True)
class Scores:
    """One position. logprob: of the token that stands; ids, logprobs: the likeliest tokens, best first."""

    logprob: float
    ids: list[int]
    logprobs: list[float]


class Scorer:
    """Keeps the row at hand as the target gave it, until the token drawn from it is known."""

    def __init__(self, alternatives: int) -> None:
        self._alternatives = alternatives
        self._row: np.ndarray | None = None

    def take(self, row: np.ndarray) -> None:
        """row: (V,) logits with padding masked."""
        self._row = row.copy()

    def of(self, token: int) -> Scores:
        """log softmax(row) at `token` and at the likeliest ids."""
        assert self._row is not None
        row = self._row
        best = float(row.max())
        total = best + float(np.log(np.exp(row - best, dtype=np.float64).sum()))
        ids = top_ids(row, self._alternatives).tolist() if self._alternatives else []
        return Scores(float(row[token]) - total, ids, [float(row[i]) - total for i in ids])


# What learning keeps of the target's distribution at a position: its likeliest ids, before any filter. Finding them
# takes longer than a small model's arithmetic leaves unnoticed, so rows of small vocabularies are copied and looked
# through when somebody asks, which is after the answer.


@dataclass(frozen=True, slots=True)
class Candidates:
    """The target's own distribution at one position, at temperature 1 and before any filter.

    ids: (K,) int32, most probable first; logprobs: (K,) float32; rest: probability of all other ids together.
    """

    ids: np.ndarray
    logprobs: np.ndarray
    rest: float


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
