"""Which target tokens a drafter piece may be the beginning of, and how likely each is: w(t | pieces).

Only the coupled picker asks: it decides how often drafter and target agree, never what the text is.
"""

from __future__ import annotations

import numpy as np

from omnidraft.vocab import Translator

Weighed = tuple[np.ndarray, np.ndarray]
_MOST = 6  # cached n-grams considered behind one beginning


class LikelyTokens:
    """Weights from the n-gram cache's use counts, as they are when first asked for; made anew for every answer."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._memo: dict[tuple[int, ...], Weighed | None] = {}

    def __call__(self, node: tuple[int, ...]) -> Weighed | None:
        """Tokens whose expansion begins with `node`: ids (n,) and log weights (n,), which sum to 1 as weights."""
        if node not in self._memo:
            self._memo[node] = self._weigh(node)
        return self._memo[node]

    def _weigh(self, node: tuple[int, ...]) -> Weighed | None:
        translator = self._translator
        found = translator.cache.through(node, _MOST) if translator.cache is not None else []
        if len(node) == 1:
            alone = self._alone(node[0])
            # the token that is just this piece: as heavy as all n-grams through it, for want of counts
            if alone is not None:
                found = [*found, (alone, sum(w for _, w in found) or 1.0)]
        if not found:
            return None
        weights = np.array([w for _, w in found])
        return np.array([t for t, _ in found]), np.log(weights / weights.sum())

    def _alone(self, piece: int) -> int | None:
        pair = self._translator.pair
        if piece in pair.drafter.eog:
            return pair.target.eos
        if pair.direct[piece] >= 0:
            return int(pair.direct[piece])
        return next(iter(pair.splits(piece)), None)
