"""How likely a proposal is to be accepted, learned online from what the target did with earlier ones.

`AcceptanceHead` is the paper's adaptive-drafting head (Section 3.4, after SpecDec++) carried over to different
vocabularies: a logistic model of a *proposal*, i.e. of a target token, whatever number of drafter pieces it took.
"""

from __future__ import annotations

from math import exp
from operator import mul
from typing import NamedTuple

import numpy as np

KINDS = ("direct", "ngram", "split", "lookup")
SIZE = 6 + len(KINDS)
_ONE_HOT = {kind: tuple(float(kind == other) for other in KINDS) for kind in KINDS}


class Features(NamedTuple):
    """What the head sees of one proposal.

    logq: log of the drafter's probability of all its pieces together; first: the same of its first piece; entropy:
    of the drafter (nats) at the first piece; depth: proposals before it in the round; pieces: how many it merges.
    """

    logq: float
    first: float
    entropy: float
    depth: int
    pieces: int
    kind: str

    def values(self) -> tuple[float, ...]:
        """SIZE numbers, each of order one."""
        logq, first, entropy, depth, pieces, kind = self
        return (1.0, max(logq, -8.0) / 2, exp(first), entropy / 2, depth / 4, pieces - 1.0, *_ONE_HOT[kind])

    def vector(self) -> np.ndarray:
        """(SIZE,) float64."""
        return np.array(self.values())


class AcceptanceHead:
    """Logistic regression by AdaGrad on binary cross-entropy, one step on each new example (Alg. 3).

    weights: (SIZE,); starts at "accepted as often as the drafter is sure".
    """

    def __init__(self, rate: float = 0.3) -> None:
        self.weights = np.zeros(SIZE)
        self.weights[:4] = (-2.0, 0.6, 5.0, -0.3)
        self._squares = np.full(SIZE, 1.0)
        self._rate = rate
        self._listed: list[float] | None = None  # the weights, as one prediction at a time is quickest

    def probability(self, features: Features, offset: float = 0.0) -> float:
        """P(accepted); `offset` shifts it, in logits."""
        if self._listed is None:
            self._listed = self.weights.tolist()
        score = offset + sum(map(mul, self._listed, features.values()))
        return 1.0 / (1.0 + exp(-max(score, -700.0)))

    def learn(self, features: Features, accepted: bool) -> None:
        x = features.vector()
        p = 1.0 / (1.0 + np.exp(-x @ self.weights))
        gradient = x * (p - float(accepted))
        self._squares += gradient**2
        self.weights -= self._rate * gradient / np.sqrt(self._squares)
        self._listed = None

    def as_dict(self) -> dict:
        return {"weights": self.weights.tolist(), "squares": self._squares.tolist()}

    @classmethod
    def from_dict(cls, data: dict) -> AcceptanceHead:
        """ValueError, KeyError or TypeError for what `as_dict` did not write."""
        head = cls()
        for name, values in (("weights", data["weights"]), ("_squares", data["squares"])):
            array = np.asarray(values, np.float64)
            if array.shape != (SIZE,) or not np.isfinite(array).all():
                raise ValueError("the acceptance head has another shape")
            setattr(head, name, array)
        return head
