"""Log probabilities of what was said, for those who ask: the target's own, at temperature 1, before any penalty, filter
or grammar. They are read off the row that the token is drawn from, so a drafter has no part in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnidraft.decoding.topk import top_ids


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
