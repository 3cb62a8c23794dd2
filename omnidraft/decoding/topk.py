"""The largest few of a vocabulary-sized row, without sorting or partitioning all of it."""

from __future__ import annotations

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
