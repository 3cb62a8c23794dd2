"""Which ids pass top-p and min-p. Knows no noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

import numpy as np

_FEW = 64  # candidates up to which going through them one by one is quickest
_ROUNDING = 1e-3  # logits that a float32 sum may be off by


@dataclass(slots=True)
class Head:
    """The candidates that compete one by one: ids and logits (n,), largest logit first.

    `rest`: whether all that was left out still competes as one (unfiltered) or is excluded.
    """

    ids: np.ndarray
    logits: np.ndarray
    rest: bool


def within(row: np.ndarray, min_p: float, most: int) -> tuple[list[int], list[float]]:
    """Ids and logits of `row` (V,) that pass `min_p` > 0, largest first; none if more than `most` (0: a few) do."""
    best, floor = float(row.max()), log(min_p)
    found = np.flatnonzero(row >= best + floor - _ROUNDING)
    if len(found) > (most or _FEW):
        return [], []
    logits = row[found].tolist()
    kept = sorted((-logit, i) for i, logit in zip(found.tolist(), logits, strict=True) if logit - best >= floor)
    return [i for _, i in kept], [-negative for negative, _ in kept]


def passing(logits: Sequence[float], top_p: float, min_p: float) -> int:
    """How many of sorted `logits`, which hold all the mass, pass top-p and min-p; at least one."""
    keep = len(logits)
    top = logits[0]
    if min_p > 0.0:
        floor = log(min_p)
        keep = next((n for n, logit in enumerate(logits) if logit - top < floor), keep)
    if top_p < 1.0:
        weights = [exp(logit - top) for logit in logits]
        enough = top_p * sum(weights)
        keep = min(keep, next((n for n, reached in enumerate(accumulate(weights), 1) if reached >= enough), keep))
    return keep
