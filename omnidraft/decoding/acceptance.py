"""How likely the target accepts what is proposed: of drafts by the acceptance head, of everything else by averages.

Answers differ, so each begins where its pair of models is and goes its own way. Nothing here knows a model or a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, isfinite, log

import numpy as np

from omnidraft.decoding.topk import top_ids
from omnidraft.vocab import Proposal, Translator

# Of an average of acceptance, per sample: it remembers the last 70, some answers of one kind.
KEEP = 0.985
# Samples that the pair's averages count for in an answer: twelve of its own rounds outweigh them.
LOOSE = 12.0
# Logits by which one complete surprise moves an answer's own offset of the acceptance head.
OFFSET_RATE = 0.4
# Classes of copies, by how many ids before them agree: none, 1 to 2, 3 to 6 and so on, from 63 the last.
_MATCHES = 7
# Ids behind which a copy is half believed before any was seen: many, so that a wide pass is paid for only after copies
# were seen to be right.
_HALF = 8

KINDS = ("direct", "ngram", "split", "lookup")  # origins that the head tells apart


def features(logq: float, first: float, entropy: float, depth: int, pieces: int, kind: str) -> np.ndarray:
    """What the head sees of one proposal: (10,) float64, each of order one.

    logq: log of the drafter's probability of all its pieces together; first: the same of its first piece; entropy:
    of the drafter (nats) at the first piece; depth: proposals before it in the round; pieces: how many it merges.
    """
    one_hot = [float(kind == other) for other in KINDS]
    return np.array([1.0, max(logq, -8.0) / 2, exp(first), entropy / 2, depth / 4, pieces - 1.0, *one_hot])


class AcceptanceHead:
    """Logistic regression of "this proposal is accepted" by AdaGrad on binary cross-entropy, one step on each new
    example: the paper's adaptive-drafting head (Section 3.4, Alg. 3, after SpecDec++) for target tokens, whatever
    number of pieces they took. weights: (10,); they start at "accepted as often as the drafter is sure"."""

    def __init__(self) -> None:
        self.weights = np.array([-2.0, 0.6, 5.0, -0.3] + [0.0] * (2 + len(KINDS)))
        self._squares = np.ones(len(self.weights))

    def probability(self, x: np.ndarray, offset: float = 0.0) -> float:
        """P(accepted); `offset` shifts it, in logits."""
        return 1.0 / (1.0 + exp(-max(float(x @ self.weights) + offset, -700.0)))

    def learn(self, x: np.ndarray, accepted: bool) -> None:
        gradient = x * (self.probability(x) - float(accepted))
        self._squares += gradient**2
        self.weights -= 0.3 * gradient / np.sqrt(self._squares)

    def as_dict(self) -> dict:
        return {"weights": self.weights.tolist(), "squares": self._squares.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping) -> AcceptanceHead:
        """ValueError, KeyError or TypeError for what `as_dict` did not write."""
        head, shape = cls(), (6 + len(KINDS),)
        head.weights, head._squares = (np.asarray(data[name], np.float64) for name in ("weights", "squares"))
        if not all(a.shape == shape and np.isfinite(a).all() for a in (head.weights, head._squares)):
            raise ValueError("the acceptance head has another shape")
        if (head._squares < 0).any():
            raise ValueError("squares below zero")
        return head


@dataclass(slots=True)
class Average:
    """A fading average with a prior: `weight` counts the samples it stands on. pair: whose it is a part of."""

    value: float
    weight: float = 2.0
    pair: Average | None = None

    def local(self) -> Average:
        """For one answer; what it learns goes to the pair's, too."""
        return Average(self.value, min(self.weight, LOOSE), self)

    def add(self, sample: float) -> None:
        self.weight = KEEP * self.weight + 1.0
        self.value += (sample - self.value) / self.weight
        if self.pair is not None:
            self.pair.add(sample)


@dataclass(slots=True)
class Averages:
    """first, later: acceptance of a round's first proposal and of those behind accepted ones; per_piece: proposals of
    a drafted piece; look: tokens that a draft promised beyond its wider pass, proposed or not; copies: acceptance of
    looked-up tokens, by `copy_class`."""

    first: Average = field(default_factory=lambda: Average(0.5))
    later: Average = field(default_factory=lambda: Average(0.6, 0.0))
    per_piece: Average = field(default_factory=lambda: Average(0.8))
    look: Average = field(default_factory=lambda: Average(0.5, 1.0))
    copies: list[Average] = field(default_factory=lambda: _copies())

    def local(self) -> Averages:
        """Where one answer begins."""
        first, later, per_piece, look = (one.local() for one in (self.first, self.later, self.per_piece, self.look))
        return Averages(first, later, per_piece, look, [average.local() for average in self.copies])

    def kept(self, proposals: float, depth: int) -> float:
        """Expected number of kept tokens among the next `proposals` (fractions count) behind `depth` accepted ones."""
        later = (self.later.weight * self.later.value + 4 * self.first.value) / (self.later.weight + 4)
        total, alive = 0.0, 1.0
        while proposals > 0:
            alive *= later if depth else self.first.value
            total += alive * min(proposals, 1.0)
            proposals, depth = proposals - 1.0, depth + 1
        return total

    def as_list(self) -> list[list[float]]:
        """Value and weight of each, in order."""
        return [[one.value, one.weight] for one in (self.first, self.later, self.per_piece, self.look, *self.copies)]

    @classmethod
    def from_list(cls, data: Sequence) -> Averages:
        """TypeError or ValueError for what `as_list` did not write."""
        first, later, per_piece, look, *copies = (_average(value, weight) for value, weight in data)
        if len(copies) != len(_copies()):
            raise ValueError("averages of copies by another division")
        if per_piece.value <= 0:
            raise ValueError("pieces that never make a token")
        return cls(first, later, per_piece, look, copies)


def _average(value: float, weight: float) -> Average:
    if not (isfinite(value) and isfinite(weight) and weight >= 0):
        raise ValueError("an average of nothing")
    return Average(float(value), float(weight))


def _copies() -> list[Average]:
    """By `copy_class`, before any was seen."""
    return [Average(2**n / (2**n + _HALF)) for n in range(_MATCHES)] * 4


def copy_class(matched: int, own: bool, agreed: bool, resumed: bool) -> int:
    """Where a copied token's average stands: how many ids before it agree, in the answer itself or another text, with
    several passages saying so and none otherwise, or behind a change."""
    return min((matched + 1).bit_length(), _MATCHES) - 1 + _MATCHES * (3 if resumed else 2 if agreed else int(own))


class Drafted:
    """The round's drafted pieces and the chances of their proposals, in one answer. offset: how much better, in logits,
    proposals do in this answer than the head, which knows all answers, expects."""

    def __init__(self, translator: Translator | None, head: AcceptanceHead, averages: Averages, offset: float) -> None:
        self.averages, self.offset = averages, offset
        self._head, self._translator = head, translator
        self._pieces: list[tuple[float, float]] = []  # log q and entropy of each piece drawn this round

    def begin(self) -> None:
        self._pieces.clear()

    def drew(self, row: np.ndarray, piece: int) -> None:
        """row: (V_drafter,) logits."""
        top = float(row.max())
        total = float(np.exp(row - top).sum())
        best = np.exp(row[top_ids(row, 16)] - top) / total
        best = best[best > 0]
        rest = max(1.0 - float(best.sum()), 1e-9)  # counts as one piece
        entropy = -float(best @ np.log(best)) - rest * log(rest)
        self._pieces.append((float(row[piece]) - top - log(total), entropy))

    def segment(self, pieces: Sequence[int]) -> list[Proposal]:
        return self._translator.segment(pieces) if self._translator else []

    def chances(self, proposals: Sequence[Proposal]) -> list[float]:
        """P(accepted | those before it accepted) of each."""
        seen = (self._features(proposal, depth) for depth, proposal in enumerate(proposals))
        return [self.averages.first.value if x is None else self._head.probability(x, self.offset) for x in seen]

    def learn(self, proposals: Sequence[Proposal], tested: int, accepted: int, drafted: int) -> None:
        """What the target did with drafted proposals; drafted: pieces they were made of, 0 if only looked at."""
        for depth, proposal in enumerate(proposals[:tested]):
            x, right = self._features(proposal, depth), depth < accepted
            if x is not None:
                self.offset += OFFSET_RATE * (right - self._head.probability(x, self.offset))
                self._head.learn(x, right)
            (self.averages.later if depth else self.averages.first).add(float(right))
        if drafted and tested:
            self.averages.per_piece.add(len(proposals) / drafted)

    def _features(self, proposal: Proposal, depth: int) -> np.ndarray | None:
        used = self._pieces[proposal.start : proposal.start + max(proposal.pieces, 1)]
        if len(used) < max(proposal.pieces, 1):
            return None
        return features(sum(logq for logq, _ in used), *used[0], depth, len(used), proposal.origin)
