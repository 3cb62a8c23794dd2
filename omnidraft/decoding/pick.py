"""How the drafter picks its next piece: greedily, with the target's own noise, or by sampling with a known q.

Each picker is given a drafter logits row with undraftable pieces masked, and returns one piece id. The verification
decides which picker is right: equality at T = 0 wants the likeliest piece, `coupled` the piece the target's noise
points to, `rejection` and `paper` an independent draw whose distribution is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import add
from typing import Protocol

import numpy as np

from omnidraft.decoding.chances import Weighed, likely_tokens
from omnidraft.decoding.sampling import gumbels, passing, within
from omnidraft.decoding.topk import top_ids
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import Translator

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


class SamplingPicker:
    """Draws from softmax(row / T) and keeps it: `q[j]` (V_drafter,) is what the j-th drafted piece was drawn from."""

    def __init__(self, rng: np.random.Generator, temperature: float, size: int, longest: int) -> None:
        self._rng = rng
        self._temperature = temperature
        self.q = np.zeros((longest, size), np.float64)

    def pick(self, row: np.ndarray, pieces: Sequence[int], position: int) -> int:
        q = self.q[len(pieces)]
        np.subtract(row, row.max(), out=q)
        q /= self._temperature
        np.exp(q, out=q)
        q /= q.sum()
        sums = np.cumsum(q)
        return int(min(np.searchsorted(sums, self._rng.random() * sums[-1], side="right"), int(q.nonzero()[0][-1])))

    def carry(self, kept: int, drafted: int) -> None:
        """Move the rows of the last `kept` of `drafted` pieces to the front."""
        self.q[:kept] = self.q[drafted - kept : drafted].copy()
