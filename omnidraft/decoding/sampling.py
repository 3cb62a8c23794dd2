"""One position of the target: logits -> the token it draws, and what learning keeps of its distribution.

Filters run as in llama.cpp: bias, penalties, top-k, top-p and min-p on the probabilities at temperature 1, then
temperature. A draw is argmax over candidates of log p + g with noise from `noise.gumbel`, so it depends on the seed,
the position and the target's distribution alone. Unfiltered, the largest `HEAD` ids compete one by one and the rest
as one outcome with their common mass, resolved by the same rule only if it wins: exact, without noise for 128k ids.
This module knows nothing about drafting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import exp, inf, log

import numpy as np

from omnidraft.backends.pictures import FIRST
from omnidraft.decoding.topk import SMALL, Candidates, Scorer, Scores, Uncounted, candidates_of, top_ids
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import TokenKind, Vocabulary

# Gumbel noise that anyone can recompute: a hash of (seed, position, outcome), no stream to keep in step. The target
# draws each position as argmax over tokens of log p + g (Gumbel-max: exactly p). Because g depends on nothing but
# seed, position and token id, the drafter can look at the same noise, and the text is the same whatever was drafted.


_ODD_INT, _M1_INT, _M2_INT = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ODD, _M1, _M2 = (np.array([n], np.uint64) for n in (_ODD_INT, _M1_INT, _M2_INT))
_S30, _S27, _S31, _S11 = (np.array([n], np.uint64) for n in (30, 27, 31, 11))  # scalars would be converted every time
_MASK = (1 << 64) - 1
_ONE_BY_ONE = 40

# Outcomes that are not token ids live above every id: groups of ids, and "one of the groups".
GROUP = 1 << 40
TAIL = 1 << 41


def _mix(x: int) -> int:
    """The 64-bit finalizer of SplitMix64 (Steele, Lea, Flood 2014) on one Python integer."""
    x = (x + _ODD_INT) & _MASK
    x = ((x ^ (x >> 30)) * _M1_INT) & _MASK
    x = ((x ^ (x >> 27)) * _M2_INT) & _MASK
    return x ^ (x >> 31)


@lru_cache(maxsize=256)  # drafter and target ask about the same positions
def _key(seed: int, position: int) -> int:
    return _mix(_mix(seed & _MASK) ^ ((position * 0xD1342543DE82EF95) & _MASK))


def uniforms(seed: int, position: int, outcomes: np.ndarray) -> np.ndarray:
    """(n,) float64 in (0, 1), 53 random bits each, for `outcomes` (n,) of any integer type."""
    key = np.uint64(_key(seed, position))
    x = outcomes.astype(np.uint64)
    x *= _ODD
    x += key
    for _ in range(2):  # one round leaves neighbouring ids faintly correlated in the low bits
        x ^= x >> _S30
        x *= _M1
        x ^= x >> _S27
        x *= _M2
        x ^= x >> _S31
        x += key
    return ((x >> _S11).astype(np.float64) + 0.5) * 2.0**-53


def gumbel(seed: int, position: int, outcomes: np.ndarray) -> np.ndarray:
    """(n,) standard Gumbel noise, float64: -log(-log u)."""
    x = uniforms(seed, position, outcomes)
    for _ in range(2):
        np.log(x, out=x)
        np.negative(x, out=x)
    return x


def gumbels(seed: int, position: int, outcomes: Sequence[int]) -> list[float]:
    """`gumbel` for a list, which is mostly short: behind a model's pass numpy's two dozen calls take longer."""
    if len(outcomes) > _ONE_BY_ONE:
        return gumbel(seed, position, np.array(outcomes)).tolist()
    key = _key(seed, position)
    found = []
    for outcome in outcomes:
        x = (outcome * _ODD_INT + key) & _MASK
        for _ in range(2):
            x ^= x >> 30
            x = (x * _M1_INT) & _MASK
            x ^= x >> 27
            x = (x * _M2_INT) & _MASK
            x ^= x >> 31
            x = (x + key) & _MASK
        u = ((x >> 11) + 0.5) * 2.0**-53
        found.append(-log(-log(u)) if u < 1.0 else inf)
    return found


# Which ids pass top-p and min-p. Knows no noise.


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


# What makes tokens that were said less likely, on one row of the target's logits. The repetition penalty looks at the
# LAST tokens of the whole context, as llama.cpp does. The presence and frequency penalties are OpenAI's: they look at
# the answer alone, z_t - presence [c_t > 0] - frequency c_t with c_t how often the answer has said t. All see verified
# tokens only, so drafting changes nothing about them.


LAST = 64  # tokens that the repetition penalty looks at


class Penalties:
    """One answer's penalties. before: how many of the first `recent` ids are not the answer's own."""

    def __init__(self, settings: SamplingSettings, before: int = 0) -> None:
        self._repeat = settings.repeat_penalty
        self._presence, self._frequency = settings.presence_penalty, settings.frequency_penalty
        self._before = before
        self._repeats = self._repeat != 1.0
        self._counts = self._presence != 0.0 or self._frequency != 0.0

    def apply(self, row: np.ndarray, recent: Sequence[int]) -> bool:
        """Penalise `row` (V,) in place behind the verified ids `recent`, newest last; False if nothing changed."""
        said = recent[self._before :] if self._counts else ()
        repeats = self._repeats and len(recent) > 0
        if repeats:
            ids = np.unique(np.asarray(recent[-LAST:], np.int64))
            logits = row[ids]
            row[ids] = np.where(logits > 0, logits / self._repeat, logits * self._repeat)
        if len(said):
            ids, counts = np.unique(np.asarray(said, np.int64), return_counts=True)
            row[ids] -= (self._presence + self._frequency * counts).astype(np.float32)
        return repeats or len(said) > 0


def looked_at(prompt: Sequence[int], written: int) -> tuple[list[int], int]:
    """What of `prompt`, whose last `written` ids are the answer's own, the penalties see: (ids, how many are not its).

    Pictures are nothing that could be said again. The result grows with the answer; see `Penalties`.
    """
    length = min(len(prompt), max(LAST, written))
    seen = [id for id in prompt[len(prompt) - length :] if id < FIRST]
    return seen, len(seen) - written


HEAD = 64
_GROUP_SIZE = 256


class Sampler:
    """Draws target tokens under one answer's settings. Buffers of vocabulary size are allocated once.

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
        before: int = 0,
        alternatives: int | None = None,
        bias: Mapping[int, float] | None = None,
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.greedy = settings.temperature <= 0
        self._capture = capture
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

    def draw(self, row: np.ndarray, position: int) -> int:
        """The target's token at `position` (counted from the answer's start) for a prepared `row`."""
        if self.greedy:
            return int(row.argmax()) if self._top is None else int(self._top[0])
        if self._filters:
            return self._filtered_draw(row, position)
        ids = self._head(row).ids
        logits = row[ids].astype(np.float64)
        scores = (logits - logits[0]) / self.settings.temperature + gumbel(self.seed, position, ids)
        best = int(scores.argmax())
        if len(ids) < len(row):
            mass = self._tail(row, ids, logits[0])
            if mass > 0 and log(mass) + gumbels(self.seed, position, [TAIL])[0] > scores[best]:
                return self._from_tail(position)
        return int(ids[best])

    def _filtered_draw(self, row: np.ndarray, position: int) -> int:
        """What `draw` draws where filters leave a few candidates."""
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

    def _captured(self, row: np.ndarray) -> Candidates | Uncounted:
        """Also leaves a large row's top ids and its mass at temperature 1 for `draw`, which needs the same."""
        if len(row) <= SMALL:
            return Uncounted(row, self._capture)
        self._top = top_ids(row, max(self._capture, HEAD))
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
        """The candidates that compete one by one."""
        s = self.settings
        if s.top_p < 1.0 or s.min_p > 0.0:
            return self._filtered(row)
        keep = s.top_k or HEAD
        ids = self._top[:keep] if self._top is not None and len(self._top) >= keep else top_ids(row, keep)
        return Head(ids, row[ids].astype(np.float64), rest=not s.top_k and len(ids) < len(row))

    def _filtered(self, row: np.ndarray) -> Head:
        s = self.settings
        limit = min(s.top_k or row.shape[0], row.shape[0])
        total = None if s.top_k or s.top_p >= 1.0 else self._exp_sum(row, float(row.max()), 1.0)
        n = min(limit, HEAD)
        while True:  # grow until the cut is inside what was sorted
            ids = top_ids(row, n)
            logits = row[ids].astype(np.float64)
            weights = np.exp(logits - logits[0])
            mass = total if total is not None else (weights.sum() if n >= limit else None)
            keep = n
            if s.top_p < 1.0 and mass is not None:
                keep = min(keep, int(np.searchsorted(np.cumsum(weights) / mass, s.top_p)) + 1)
            if s.min_p > 0.0:
                keep = min(keep, max(1, int((logits - logits[0] >= np.log(s.min_p)).sum())))
            if n >= limit or (keep < n and (mass is not None or s.top_p >= 1.0)):
                return Head(ids[:keep], logits[:keep], rest=False)
            n = min(limit, n * 4)

    def _tail(self, row: np.ndarray, head: np.ndarray, top: float) -> float:
        """Mass of all ids outside `head`, relative to exp(top / T); leaves their weights in place for `_from_tail`."""
        if self._mass is None or self.settings.temperature != 1.0:
            self._exp_sum(row, top, self.settings.temperature)
        self._weights[head] = 0.0
        return float(self._weights.sum())

    def _from_tail(self, position: int) -> int:
        """One of the weighted ids by argmax of log weight + noise, first among groups of ids, then inside the group."""
        masses = np.add.reduceat(self._weights, self._starts)
        start = self._argmax(masses, position, GROUP) * _GROUP_SIZE
        return start + self._argmax(self._weights[start : start + _GROUP_SIZE], position, start)

    def _argmax(self, weights: np.ndarray, position: int, first: int) -> int:
        found = np.flatnonzero(weights)
        scores = np.log(weights[found].astype(np.float64)) + gumbel(self.seed, position, found + first)
        return int(found[int(scores.argmax())])


def _ranges(ids: np.ndarray) -> list[slice]:
    """Sorted ids as the fewest slices (padding is one block in practice)."""
    if not len(ids):
        return []
    breaks = np.flatnonzero(np.diff(ids) > 1)
    starts = np.concatenate(([ids[0]], ids[breaks + 1]))
    ends = np.concatenate((ids[breaks], [ids[-1]]))
    return [slice(int(a), int(b) + 1) for a, b in zip(starts, ends, strict=True)]
