"""Which target tokens a drafter piece may be the beginning of, and how likely each is: w(t | pieces).

Only the coupled picker asks: it decides how often drafter and target agree, never what the text is.
"""

from __future__ import annotations

from math import log
from weakref import WeakKeyDictionary

from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache

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
