"""How likely proposals are to be accepted: the acceptance head's word for what is drafted, averages for the rest.

Answers differ, so each begins where the pair is and goes its own way: averages of its own, and an offset of the head.
Comparing a copy or a first piece with what the target says costs nothing, so unproposed ones teach, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from omnidraft.decoding.acceptance import AcceptanceHead, Features
from omnidraft.decoding.topk import top_ids
from omnidraft.vocab import Proposal, Translator

# Of what an average remembers, per sample: the last 70, some answers of one kind.
_KEEP = 0.985
# Samples that the pair's averages count for in an answer: six of its own rounds outweigh them.
_LOOSE = 6.0
# Logits that one complete surprise moves an answer's offset by, and the most it may be (a chance of 0.05 or 0.95).
_OFFSET_RATE, _OFFSET_MOST = 0.7, 3.0
# Match lengths of copies that are told apart, and what is believed of each before it was seen: low enough that a wide
# pass is paid for only after copies were seen to be right.
_BOUNDS = (4, 5, 7, 10, 16)
_PRIOR = (0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
_KINDS = 3  # another text's copies, the answer's own, and what several passages agree on
_SEEN = 16  # pieces the entropy looks at; the rest counts as one


@dataclass(slots=True)
class Average:
    """A fading average with a prior: `weight` counts the samples it stands on."""

    value: float
    weight: float = 2.0

    def local(self) -> Average:
        return Average(self.value, min(self.weight, _LOOSE))

    def add(self, sample: float) -> None:
        self.weight = _KEEP * self.weight + 1.0
        self.value += (sample - self.value) / self.weight


def _copies() -> list[Average]:
    return [Average(value) for value in _PRIOR * _KINDS]


@dataclass(slots=True)
class Rates:
    """A pair's averages. first, later: acceptance of a round's first proposal and of those behind accepted ones;
    per_piece: proposals of a drafted piece; look: tokens that a draft promised beyond its wider pass, proposed or not;
    copies: of looked-up tokens, by `copy_class`."""

    first: Average = field(default_factory=lambda: Average(0.5))
    later: Average = field(default_factory=lambda: Average(0.6, 0.0))
    per_piece: Average = field(default_factory=lambda: Average(0.8))
    look: Average = field(default_factory=lambda: Average(0.5, 1.0))
    copies: list[Average] = field(default_factory=_copies)

    def local(self) -> Rates:
        """Where one answer begins."""
        first, later, per_piece, look = (one.local() for one in (self.first, self.later, self.per_piece, self.look))
        return Rates(first, later, per_piece, look, [average.local() for average in self.copies])

    def kept(self, proposals: float, depth: int) -> float:
        """Expected number of kept tokens among the next `proposals` (fractions count) behind `depth` accepted ones."""
        later = (self.later.weight * self.later.value + 4 * self.first.value) / (self.later.weight + 4)
        total, alive = 0.0, 1.0
        while proposals > 0:
            alive *= later if depth else self.first.value
            total += alive * min(proposals, 1.0)
            proposals, depth = proposals - 1.0, depth + 1
        return total

    def as_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> Rates:
        if len(data["copies"]) != _KINDS * len(_PRIOR):
            raise ValueError("rates of copies by another division")
        named = {name: Average(**data[name]) for name in ("first", "later", "per_piece", "look")}
        return cls(**named, copies=[Average(**average) for average in data["copies"]])


def copy_class(matched: int, own: bool, agreed: bool) -> int:
    """Where a copied token's average stands: how many ids before it agree, in the answer itself or another text, or
    with several passages saying so and none otherwise."""
    return bisect_right(_BOUNDS, matched) + len(_PRIOR) * (2 if agreed else int(own))


class Chances:
    """One answer's estimates; what it learns goes to the pair's averages (`shared`), too.

    offset: how much better, in logits, proposals do in this answer than the head, which knows all answers, expects.
    """

    def __init__(self, translator: Translator | None, head: AcceptanceHead, shared: Rates, offset: float) -> None:
        self.rates, self.offset = shared.local(), offset
        self._shared, self._head, self._translator = shared, head, translator
        self._carried = 0  # pieces of an earlier round, whose logits are gone
        self._pieces: list[tuple[float, float]] = []  # log q and entropy of each piece drawn this round
        self._features: dict[Proposal, Features] = {}

    def begin(self, carried: int) -> None:
        self._carried = carried
        self._pieces.clear()
        self._features.clear()

    def drew(self, row: np.ndarray, piece: int) -> None:
        top = float(row.max())
        total = float(np.exp(row - top).sum())
        best = np.exp(row[top_ids(row, _SEEN)] - top) / total
        best = best[best > 0]
        rest = max(1.0 - float(best.sum()), 1e-9)
        entropy = float(-(best * np.log(best)).sum()) - rest * np.log(rest)
        self._pieces.append((float(row[piece]) - top - float(np.log(total)), entropy))

    def segment(self, pieces: Sequence[int]) -> list[Proposal]:
        return self._translator.segment(pieces) if self._translator else []

    def of(self, proposals: Sequence[Proposal]) -> list[float]:
        """P(accepted | those before it accepted) of each; of carried ones as drafts go."""
        found = (self._of(proposal, depth) for depth, proposal in enumerate(proposals))
        return [self._head.probability(f, self.offset) if f else self.rates.first.value for f in found]

    def learn(self, proposals: Sequence[Proposal], tested: int, accepted: int, drafted: int) -> None:
        """What the target did with drafted proposals; drafted: pieces they were made of, 0 if only looked at."""
        for depth, proposal in enumerate(proposals[:tested]):
            features = self._of(proposal, depth)
            if features is not None:
                expected = self._head.probability(features, self.offset)
                self._head.learn(features, depth < accepted)
                offset = self.offset + _OFFSET_RATE * ((depth < accepted) - expected)
                self.offset = min(max(offset, -_OFFSET_MOST), _OFFSET_MOST)
        for rates in (self._shared, self.rates) if tested else ():
            if drafted:
                rates.per_piece.add(len(proposals) / drafted)
            rates.first.add(float(accepted > 0))
            for depth in range(1, tested):
                rates.later.add(float(depth < accepted))

    def looked(self, gain: float) -> None:
        for rates in (self._shared, self.rates):
            rates.look.add(gain)

    def copied(self, number: int, right: bool) -> None:
        """A copied token of class `number` was right, or not."""
        for rates in (self._shared, self.rates):
            rates.copies[number].add(float(right))

    def _of(self, proposal: Proposal, depth: int) -> Features | None:
        if proposal in self._features:
            return self._features[proposal]
        start = proposal.start - self._carried
        used = range(start, start + max(proposal.pieces, 1))
        if start < 0 or used.stop > len(self._pieces):
            return None
        logq = sum(self._pieces[i][0] for i in used)
        first, entropy = self._pieces[start]
        features = Features(logq, first, entropy, depth, len(used), proposal.origin)
        self._features[proposal] = features
        return features
