"""One position of the target: logits -> the token it draws, and what learning keeps of its distribution.

Filters run as in llama.cpp: bias, penalties, top-k, top-p and min-p on the probabilities at temperature 1, then
temperature. A draw is argmax over candidates of log p + g with noise from `noise.gumbel`, so it depends on the seed,
the position and the target's distribution alone. Unfiltered, the largest `HEAD` ids compete one by one and the rest
as one outcome with their common mass, resolved by the same rule only if it wins: exact, without noise for 128k ids.
This module knows nothing about drafting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

import numpy as np

from omnidraft.decoding.capture import SMALL, Uncounted, candidates_of
from omnidraft.decoding.events import Candidates
from omnidraft.decoding.filters import EDGE, Head, by_rank, cut, passing, within
from omnidraft.decoding.noise import GROUP, TAIL, gumbel, gumbels
from omnidraft.decoding.penalties import Penalties
from omnidraft.decoding.scores import Scorer, Scores
from omnidraft.decoding.topk import top_ids, top_two
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import TokenKind, Vocabulary

HEAD = 64
_GROUP_SIZE = 256


class Draw(NamedTuple):
    """A drawn token and its margin: how far, in logits, the runner-up was (near-ties are small margins)."""

    id: int
    margin: float


class Sampler:
    """Draws target tokens under one answer's settings. Buffers of vocabulary size are allocated once.

    margins: whether draws tell theirs; finding them takes longer than a filtered draw itself, and changes none.
    before: how many of the first ids that `prepare` is told of are not the answer's own. alternatives: how many of the
    likeliest tokens `scores` tells beside what was drawn; None: nobody asks. bias: id -> what is added to its logit.
    """

    def __init__(
        self,
        settings: SamplingSettings,
        vocabulary: Vocabulary,
        seed: int,
        capture: int = 0,
        *,
        margins: bool = True,
        before: int = 0,
        alternatives: int | None = None,
        bias: Mapping[int, float] | None = None,
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.greedy = settings.temperature <= 0
        self._capture = capture
        self._margins = margins
        self._biased = np.array(list(bias or ()), np.int64)
        self._bias = np.array(list((bias or {}).values()), np.float32)
        self._penalties = Penalties(settings, before)
        self._scorer = Scorer(alternatives) if alternatives is not None else None
        self._weights = np.empty(vocabulary.size, np.float32)
        self._masked = _ranges(np.flatnonzero(vocabulary.kinds == TokenKind.UNUSED))
        self._top: np.ndarray | None = None  # of the row last prepared, if captured and not penalised
        self._mass: float | None = None  # likewise; the weights are then this row's
        self._starts = np.arange(0, vocabulary.size, _GROUP_SIZE)
        self._filters = settings.top_k > 0 or settings.top_p < 1.0 or settings.min_p > 0.0

    def prepare(self, row: np.ndarray, recent: Sequence[int]) -> Candidates | Uncounted | None:
        """Mask padding, apply bias and penalties to `row` (V,) in place; returns the captured top ids, before both.

        `recent`: verified ids the penalties look at, newest last.
        """
        for padding in self._masked:
            row[padding] = -np.inf
        self._top = self._mass = None
        captured = self._captured(row) if self._capture else None
        if self._scorer is not None:
            self._scorer.take(row)
        if self._bias.size:
            row[self._biased] += self._bias
        if self._penalties.apply(row, recent) or self._bias.size:
            self._top = self._mass = None
        return captured

    def scores(self, token: int) -> Scores | None:
        """Log probabilities at the position last prepared, where `token` stands; None if nobody asked for any."""
        return self._scorer.of(token) if self._scorer is not None else None

    def draw(self, row: np.ndarray, position: int) -> Draw:
        """The target's token at `position` (counted from the answer's start) for a prepared `row`."""
        if self.greedy:
            return self._greedy(row)
        if not self._margins and self._filters:
            return Draw(self._filtered_draw(row, position), np.inf)
        head = self._head(row)
        temperature = self.settings.temperature
        top = head.logits[0]
        scores = (head.logits - top) / temperature + gumbel(self.seed, position, head.ids)
        best = int(scores.argmax())
        score = scores[best]
        margin = score - np.partition(scores, -2)[-2] if self._margins and len(scores) > 1 else np.inf
        if head.rest:
            mass = self._tail(row, head.ids, top)
            tail = log(mass) + gumbels(self.seed, position, [TAIL])[0] if mass > 0 else -np.inf
            if tail > score:
                drawn, inner = self._from_tail(position)
                margin = min(tail - score, inner)
                if len(head.outside):
                    margin = min(margin, head.outside[0] / temperature)
                return Draw(drawn, float(margin * temperature))
            margin = min(margin, score - tail)
        if not self._margins:
            return Draw(int(head.ids[best]), np.inf)
        return Draw(int(head.ids[best]), float(self._edge(head, best, score, margin, position) * temperature))

    def _filtered_draw(self, row: np.ndarray, position: int) -> int:
        """What `draw` draws where filters leave a few candidates, and nothing about how close it was."""
        ids, logits = self._kept(row)
        if len(ids) == 1:
            return ids[0]
        top, temperature = logits[0], self.settings.temperature
        noise = gumbels(self.seed, position, ids)
        scores = [(logit - top) / temperature + g for logit, g in zip(logits, noise, strict=True)]
        return ids[scores.index(max(scores))]

    def _kept(self, row: np.ndarray) -> tuple[list[int], list[float]]:
        """Ids and logits of what passes the filters, largest first."""
        s = self.settings
        known = self._top is not None and 0 < s.top_k <= len(self._top)
        if s.min_p > 0.0 and not known and not (s.top_k and s.top_p < 1.0):
            ids, logits = within(row, s.min_p, s.top_k)
            # Those left out can only add to the mass: if top-p drops none of these, it drops none at all.
            if ids and passing(logits, s.top_p, s.min_p) == len(ids):
                return ids, logits
        if not s.top_k:
            head = self._filtered(row)
            return head.ids.tolist(), head.logits.tolist()
        top = self._top
        found = top[: s.top_k] if known and top is not None else top_ids(row, s.top_k)
        logits = row[found].tolist()
        keep = passing(logits, s.top_p, s.min_p)
        return found[:keep].tolist(), logits[:keep]

    def probabilities(self, row: np.ndarray) -> np.ndarray:
        """(V,) float64, summing to 1: the filtered target distribution of a prepared `row`."""
        p = np.zeros(row.shape[0])
        if self.greedy:
            p[int(row.argmax())] = 1.0
            return p
        head = self._head(row)
        if head.rest:
            np.exp((row - head.logits[0]) / self.settings.temperature, out=p)
        else:
            p[head.ids] = np.exp((head.logits - head.logits[0]) / self.settings.temperature)
        p /= p.sum()
        return p

    def _greedy(self, row: np.ndarray) -> Draw:
        if self._top is None or len(self._top) < 2:
            return Draw(*top_two(row)) if self._margins else Draw(int(row.argmax()), np.inf)
        first, second = self._top[:2]
        return Draw(int(first), float(row[first] - row[second]))

    def _captured(self, row: np.ndarray) -> Candidates | Uncounted:
        """Also leaves a large row's top ids and its mass at temperature 1 for `draw`, which needs the same."""
        if len(row) <= SMALL:
            return Uncounted(row, self._capture)
        self._top = top_ids(row, max(self._capture, HEAD + EDGE))
        ids = self._top[: self._capture]
        self._mass = self._exp_sum(row, row[ids[0]], 1.0)
        return candidates_of(row, ids, self._mass)

    def _exp_sum(self, row: np.ndarray, top: float, temperature: float) -> float:
        """Fills the weights with exp((row - top) / T) and returns their sum."""
        np.subtract(row, top, out=self._weights)
        if temperature != 1.0:
            self._weights *= np.float32(1.0 / temperature)
        np.exp(self._weights, out=self._weights)
        return float(self._weights.sum())

    def _head(self, row: np.ndarray) -> Head:
        s = self.settings
        if s.top_p >= 1.0 and s.min_p <= 0.0:
            keep = s.top_k or HEAD
            top = self._top
            known = top is not None and len(top) >= keep + EDGE
            ids = top[: keep + EDGE] if top is not None and known else top_ids(row, keep + EDGE)
            logits = row[ids].astype(np.float64)
            rest = not s.top_k and len(ids) > keep
            return cut(ids, logits, keep, *by_rank(logits, keep), rest=rest)
        return self._filtered(row)

    def _filtered(self, row: np.ndarray) -> Head:
        s = self.settings
        limit = min(s.top_k or row.shape[0], row.shape[0])
        total = None if s.top_k or s.top_p >= 1.0 else self._exp_sum(row, float(row.max()), 1.0)
        n = min(limit, HEAD)
        while True:  # grow until the cut is inside what was sorted
            ids = top_ids(row, n + EDGE)
            logits = row[ids].astype(np.float64)
            gaps = logits - logits[0]
            weights = np.exp(gaps)
            mass = total if total is not None else (weights[:limit].sum() if n >= limit else None)
            keep = n
            if s.top_p < 1.0 and mass is not None:
                shares = np.cumsum(weights) / mass
                keep = min(keep, int(np.searchsorted(shares[:n], s.top_p)) + 1)
            if s.min_p > 0.0:
                floor = np.log(s.min_p)
                keep = min(keep, max(1, int((gaps[:n] >= floor).sum())))
            if n >= limit or len(ids) <= n or (keep < n and (mass is not None or s.top_p >= 1.0)):
                break
            n = min(limit, n * 4)
        # Kept is what passes every filter: the nearest one decides who goes, the furthest who comes.
        inside, outside = np.full(keep, np.inf), np.full(max(len(ids) - keep, 0), -np.inf)
        ways = [by_rank(logits, keep, n)] if 0 < s.top_k < row.shape[0] else []
        if s.top_p < 1.0:
            before = np.concatenate(([-np.inf], shares[:-1]))  # the share ahead of each id; the first always stays
            kept, left = by_rank(logits, keep)
            ways.append((np.minimum(s.top_p - before[:keep], kept), np.minimum(before[keep:] - s.top_p, left)))
        if s.min_p > 0.0:
            kept = gaps[:keep] - floor
            kept[0] = -gaps[1] - floor if len(gaps) > 1 else np.inf  # only the second, grown past it, can push it out
            ways.append((kept, floor - gaps[keep:]))
        for kept, left in ways:
            inside, outside = np.minimum(inside, kept), np.maximum(outside, left)
        return cut(ids, logits, keep, inside, outside, rest=False)

    def _tail(self, row: np.ndarray, head: np.ndarray, top: float) -> float:
        """Mass of all ids outside `head`, relative to exp(top / T); leaves their weights in place for `_from_tail`."""
        if self._mass is None or self.settings.temperature != 1.0:
            self._exp_sum(row, top, self.settings.temperature)
        self._weights[head] = 0.0
        return float(self._weights.sum())

    def _from_tail(self, position: int) -> tuple[int, float]:
        """One of the weighted ids by argmax of log weight + noise, first among groups of ids, then inside the group."""
        masses = np.add.reduceat(self._weights, self._starts)
        group, margin = self._argmax(masses, position, GROUP)
        start = group * _GROUP_SIZE
        inside, inner = self._argmax(self._weights[start : start + _GROUP_SIZE], position, start)
        return start + inside, min(margin, inner)

    def _argmax(self, weights: np.ndarray, position: int, first: int) -> tuple[int, float]:
        found = np.flatnonzero(weights)
        scores = np.log(weights[found].astype(np.float64)) + gumbel(self.seed, position, found + first)
        best = int(scores.argmax())
        margin = scores[best] - np.partition(scores, -2)[-2] if len(scores) > 1 else np.inf
        return int(found[best]), float(margin)

    def _edge(self, head: Head, best: int, score: float, margin: float, position: int) -> float:
        """The margin, lowered if the cut could fall differently *and* that would change the winner."""
        if not len(head.edge_ids):
            return margin
        temperature = self.settings.temperature
        scores = (head.edge_logits - head.logits[0]) / temperature + gumbel(self.seed, position, head.edge_ids)
        better = head.outside[scores > score]
        nearest = min(float(head.inside[best]), float(better.min()) if len(better) else np.inf)
        return min(margin, max(nearest, 0.0) / temperature)


def _ranges(ids: np.ndarray) -> list[slice]:
    """Sorted ids as the fewest slices (padding is one block in practice)."""
    if not len(ids):
        return []
    breaks = np.flatnonzero(np.diff(ids) > 1)
    starts = np.concatenate(([ids[0]], ids[breaks + 1]))
    ends = np.concatenate((ids[breaks], [ids[-1]]))
    return [slice(int(a), int(b) + 1) for a, b in zip(starts, ends, strict=True)]
