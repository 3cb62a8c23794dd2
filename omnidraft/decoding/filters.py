"""Which ids pass top-p and min-p, and how far rounding would have to go to let others pass. Knows no noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

import numpy as np

EDGE = 12  # ids behind the cut that rounding could bring in
_FEW = 64  # candidates up to which going through them one by one is quickest
_ROUNDING = 1e-3  # logits that a float32 sum may be off by


@dataclass(slots=True)
class Head:
    """The candidates that compete one by one: ids and logits (n,), largest logit first.

    `edge_ids`, `edge_logits`: the next few, left out. `inside` (n,): how far, in logits, rounding would have to go to
    push an id out; `outside`: to bring one of the edge in. `rest`: whether all that was left out still competes as one
    (unfiltered) or is excluded.
    """

    ids: np.ndarray
    logits: np.ndarray
    inside: np.ndarray
    edge_ids: np.ndarray
    edge_logits: np.ndarray
    outside: np.ndarray
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


def cut(ids: np.ndarray, logits: np.ndarray, keep: int, inside: np.ndarray, outside: np.ndarray, *, rest: bool) -> Head:
    """The first `keep` of `ids` (sorted by logit) as a head, the next few as its edge."""
    end = keep + EDGE
    return Head(ids[:keep], logits[:keep], inside, ids[keep:end], logits[keep:end], outside[:EDGE], rest)


def by_rank(logits: np.ndarray, keep: int, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(inside, outside) of the first `keep` of sorted `logits` where the first `limit` (default: keep) may stay."""
    limit = keep if limit is None else limit
    inside = logits[:keep] - logits[limit] if limit < len(logits) else np.full(len(logits[:keep]), np.inf)
    return inside, logits[min(limit, len(logits)) - 1] - logits[keep:]
