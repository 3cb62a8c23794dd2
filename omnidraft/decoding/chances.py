"""How likely proposals are to be accepted: the acceptance head's word for what is drafted, averages for the rest.

Answers differ, so each begins where the pair is and goes its own way: averages of its own, and an offset of the head.
Comparing a copy or a first piece with what the target says costs nothing, so unproposed ones teach, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log
from operator import mul
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from omnidraft.decoding.cost import NEAR, CostModel
from omnidraft.decoding.guard import Guard, Retry
from omnidraft.decoding.topk import top_ids
from omnidraft.vocab import PairMap, Proposal, Translator
from omnidraft.vocab.ngram_cache import NgramCache

# How likely a proposal is to be accepted, learned online from what the target did with earlier ones.
# `AcceptanceHead` is the paper's adaptive-drafting head (Section 3.4, after SpecDec++) carried over to different
# vocabularies: a logistic model of a *proposal*, i.e. of a target token, whatever number of drafter pieces it took.


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


# What was learned about a drafter-target pair on this machine: times, chances, and whether drafting paid.


_MEMORY = 0.995  # of the long-run rate, per round: several answers, so that one does not decide what time is worth


@dataclass(slots=True)
class Knowledge:
    """Of one drafter-target pair in one kind of sampling; lives as long as the pair and is stored."""

    cost: CostModel
    rates: Rates = field(default_factory=Rates)
    head: AcceptanceHead = field(default_factory=AcceptanceHead)
    drafting: bool = True  # expected to pay
    guard: Guard = field(default_factory=Guard)
    look: Retry = field(default_factory=lambda: Retry(NEAR))  # where drafting is not expected to pay
    offset: float = 0.0  # the next answer begins with, see `Chances`
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def drafts(self) -> bool:
        """Whether drafting is expected to pay, and was not ended."""
        return self.drafting and not self.guard.plain_only

    @property
    def rate(self) -> float:
        """R, tokens per second in the long run, never below plain decoding's."""
        plain = 1.0 / self.cost.pass_seconds(1)
        return max(plain, self.tokens / self.seconds) if self.seconds else plain

    def remember(self, tokens: int, seconds: float, rounds: int = 1) -> None:
        """Tokens emitted in `rounds` that took `seconds` together."""
        kept = _MEMORY**rounds
        self.tokens = kept * self.tokens + tokens
        self.seconds = kept * self.seconds + seconds

    def as_dict(self) -> dict:
        return {
            "cost": self.cost.as_dict(),
            "rates": self.rates.as_dict(),
            "head": self.head.as_dict(),
            "drafting": self.drafting,
            "plain": self.guard.plain_only,
        }

    @classmethod
    def from_dict(cls, data: dict) -> Knowledge:
        """KeyError, TypeError, ValueError or SettingsError for what `as_dict` did not write."""
        return cls(
            CostModel.from_dict(data["cost"]),
            Rates.from_dict(data["rates"]),
            AcceptanceHead.from_dict(data["head"]),
            bool(data["drafting"]),
            Guard(bool(data["plain"])),
        )


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
