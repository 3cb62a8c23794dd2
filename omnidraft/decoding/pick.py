"""How the drafter picks its next piece: the likeliest at T = 0, else the one that the target's own noise points to.

Each picker is given a drafter logits row with undraftable pieces masked, and returns one piece id.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from operator import add
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from omnidraft.decoding.sampling import gumbels, passing, within
from omnidraft.decoding.topk import top_ids
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache

# Which target tokens a drafter piece may be the beginning of, and how likely each is: w(t | pieces). Only the coupled
# picker asks: it decides how often drafter and target agree, never what the text is.


Weighed = tuple[list[int], list[float]]
_MOST = 6  # cached n-grams considered behind one beginning
_AGE = 32  # n-gram tokens emitted, after which weights are worked out anew; more once there are many to count


class LikelyTokens:
    """Weights from the n-gram cache's use counts, as they are when first asked for."""

    def __init__(self, pair: PairMap, cache: NgramCache | None) -> None:
        self._pair = pair
        self._cache = cache
        self._memo: dict[tuple[int, ...], Weighed | None] = {}
        self._born = self._emitted()

    @property
    def old(self) -> bool:
        return self._emitted() - self._born > max(_AGE, self._born // 8)

    def __call__(self, node: tuple[int, ...]) -> Weighed | None:
        """Tokens whose expansion begins with `node`: ids and log weights, which sum to 1 as weights."""
        found = self._memo.get(node, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._memo[node] = self._weigh(node)
        return found

    def _emitted(self) -> int:
        return self._cache.stats()["lookups"] if self._cache is not None else 0

    def _weigh(self, node: tuple[int, ...]) -> Weighed | None:
        found = self._cache.through(node, _MOST) if self._cache is not None else []
        if len(node) == 1:
            alone = self._alone(node[0])
            # the token that is just this piece: as heavy as all n-grams through it, for want of counts
            if alone is not None:
                found = [*found, (alone, sum(w for _, w in found) or 1.0)]
        found = [(t, w) for t, w in found if w > 0]  # one may have been evicted meanwhile
        if not found:
            return None
        total = sum(w for _, w in found)
        return [t for t, _ in found], [log(w / total) for _, w in found]

    def _alone(self, piece: int) -> int | None:
        pair = self._pair
        if piece in pair.drafter.eog:
            return pair.target.eos
        if pair.direct[piece] >= 0:
            return int(pair.direct[piece])
        return next(iter(pair.splits(piece)), None)


_UNKNOWN: Weighed = ([], [])
_kept: WeakKeyDictionary[Translator, LikelyTokens] = WeakKeyDictionary()


def likely_tokens(translator: Translator) -> LikelyTokens:
    """For one answer. Earlier answers' weights serve again while they are fresh: to find them takes longer than to
    draft with them."""
    likely = _kept.get(translator)
    if likely is None or likely.old:
        likely = _kept[translator] = LikelyTokens(translator.pair, translator.cache)
    return likely


# The pickers.


_WIDTH = 24  # pieces whose noise is looked at: the winner is hardly ever a less likely one


class Picker(Protocol):
    def pick(self, row: np.ndarray, pieces: Sequence[int], position: int) -> int:
        """row: (V_drafter,) logits; pieces: drafted so far this round; position: where the first of them stands."""
        ...


class GreedyPicker:
    def pick(self, row: np.ndarray, pieces: Sequence[int], position: int) -> int:
        return int(row.argmax())


class CoupledPicker:
    """Gumbel-max over pieces, where a piece's noise is the target's own.

    The noise of piece d is the best over likely target tokens t whose expansion runs through it of
    log w(t | d) + g(t), w summing to 1: again a standard Gumbel variable, so pieces are still drawn from q, but they
    agree with the target's draw as often as the two distributions allow. q is filtered as the target's distribution
    is: what the target hardly ever says is not worth a try, and where one piece is left there is nothing to draw.
    """

    def __init__(self, translator: Translator, seed: int, sampling: SamplingSettings) -> None:
        self._translator = translator
        self._likely = likely_tokens(translator)
        self._seed = seed
        self._sampling = sampling
        self._width = min(sampling.top_k or _WIDTH, _WIDTH)

    def pick(self, row: np.ndarray, pieces: Sequence[int], position: int) -> int:
        found, logits = self._candidates(row)
        if len(found) == 1:
            return found[0]
        closed = self._translator.segment(pieces, final=False) if pieces else ()
        node = tuple(pieces[closed[-1].start + closed[-1].pieces :]) if closed else tuple(pieces)
        noise = self._noise(found, node, position + len(closed))
        temperature = self._sampling.temperature
        scores = [logit / temperature + g for logit, g in zip(logits, noise, strict=True)]
        return found[scores.index(max(scores))]

    def _candidates(self, row: np.ndarray) -> tuple[list[int], list[float]]:
        """Pieces that pass the filters among the first few, and their logits, likeliest first."""
        s = self._sampling
        found, logits = within(row, s.min_p, self._width) if s.min_p > 0.0 else ([], [])
        if not found:
            ids = top_ids(row, self._width)
            found, logits = ids.tolist(), row[ids].tolist()
        keep = passing(logits, s.top_p, s.min_p)
        return found[:keep], logits[:keep]

    def _noise(self, found: Sequence[int], node: tuple[int, ...], position: int) -> list[float]:
        """Noise of each candidate piece behind the open fragment `node` of the token at `position`."""
        noise = [-inf] * len(found)
        going_on: list[tuple[int, Weighed]] = []
        starting: list[tuple[int, Weighed]] = []
        for i, piece in enumerate(found):
            if node and (weighed := self._likely((*node, piece))) is not None:
                going_on.append((i, weighed))
            elif (weighed := self._likely((piece,))) is not None:
                starting.append((i, weighed))
        self._best(noise, going_on, position)
        self._best(noise, starting, position + (1 if node else 0))
        return noise

    def _best(self, noise: list[float], options: list[tuple[int, Weighed]], position: int) -> None:
        """noise[i] = max over the tokens of option i of log w + g."""
        drawn = iter(gumbels(self._seed, position, [t for _, (ids, _) in options for t in ids]))
        for i, (_, weights) in options:
            noise[i] = max(map(add, weights, drawn))
