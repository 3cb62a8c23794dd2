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
