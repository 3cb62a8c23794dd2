"""Exact verification by equality: the target draws its own token at every position; a proposal is kept iff it is it.

Serves T = 0 (the draw is the argmax) and `coupled` (the draw is argmax of log p + g). Whatever is proposed, the
emitted tokens are those plain decoding would have drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from omnidraft.decoding.events import Captured
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.topk import Scores
from omnidraft.vocab import Proposal


@dataclass(frozen=True, slots=True)
class Emission:
    """A token that stands, with what the target thought at its position."""

    id: int
    candidates: Captured | None
    scores: Scores | None = None


@dataclass(slots=True)
class Verdict:
    """Outcome of one target pass.

    emitted: the tokens that stand, at least one; the first `accepted` of them are proposals. tested: proposals
    compared, the first mismatch included. carried: how many of the drafted pieces, counted from the end, were drawn
    but not tested and stay for the next round (rejection sampling only).
    """

    emitted: list[Emission] = field(default_factory=list)
    accepted: int = 0
    tested: int = 0
    carried: int = 0


def verify_by_equality(
    rows: np.ndarray,
    proposals: Sequence[int],
    sampler: Sampler,
    recent: list[int],
    position: int,
    ends: Callable[[int], bool],
) -> Verdict:
    """Accept while proposal == draw.

    rows: (m + 1, V) logits; row i is the target's behind the first i of the m proposals. recent: verified ids, grows
    by what is emitted (penalties see verified tokens only). ends: true for ids nothing may follow.
    """
    verdict = Verdict()
    for i in range(len(proposals) + 1):
        candidates = sampler.prepare(rows[i], recent)
        drawn = sampler.draw(rows[i], position + i)
        verdict.emitted.append(Emission(drawn, candidates, sampler.scores(drawn)))
        recent.append(drawn)
        if i == len(proposals):
            break
        verdict.tested += 1
        if drawn != proposals[i]:
            break
        verdict.accepted += 1
        if ends(drawn):
            break
    return verdict


# Target ids sorted by their expansion: which ids begin with given drafter pieces, as one range each. Rejection
# sampling in the drafter's vocabulary needs, at a node (pieces accepted so far), the target's mass on tokens that are
# exactly the node, that go on, and that go on with a given piece. Sorted by expansion each of these is a contiguous
# range.


NO_PIECE = 1 << 30  # the "expansion" of ids that have none: the drafter never draws it


@dataclass(frozen=True, slots=True)
class Node:
    """Ids whose expansion begins with `pieces`: order[low:high]; exactly `pieces`: order[low:inner]."""

    pieces: tuple[int, ...]
    low: int
    inner: int
    high: int


class ExpansionTree:
    """Built once per pair of vocabularies; nodes are found by bisection and remembered.

    ids: (n,) the target ids in order of their expansions; every id that can be sampled is in it once.
    """

    def __init__(self, expansions: Sequence[tuple[int, ...]]) -> None:
        self.expansions = [e or (NO_PIECE, t) for t, e in enumerate(expansions)]
        self.ids = np.array(sorted(range(len(expansions)), key=self.expansions.__getitem__), np.int64)
        self._keys = [self.expansions[t] for t in self.ids]
        self.root = Node((), 0, 0, len(self._keys))
        self._children: dict[tuple[int, ...], Node] = {}

    def child(self, node: Node, piece: int) -> Node:
        """The node behind `node` + `piece`; an empty range if no target id begins so."""
        pieces = (*node.pieces, piece)
        found = self._children.get(pieces)
        if found is None:
            low = bisect_left(self._keys, pieces, node.low, node.high)
            inner = bisect_left(self._keys, (*pieces, -1), low, node.high)
            high = bisect_left(self._keys, (*node.pieces, piece + 1), inner, node.high)
            found = self._children[pieces] = Node(pieces, low, inner, high)
        return found

    def next_piece(self, node: Node, target_id: int) -> int:
        """The piece behind `node` in the expansion of an id that goes on behind it."""
        return self.expansions[target_id][len(node.pieces)]

    def exact(self, node: Node) -> np.ndarray:
        return self.ids[node.low : node.inner]

    def longer(self, node: Node) -> np.ndarray:
        return self.ids[node.inner : node.high]


# Exact rejection sampling across vocabularies, piece by piece in the drafter's vocabulary. The paper's p/q test (Alg.
# 1) on merged tokens uses q' of Eq. 1-2, which is not the probability with which the proposal procedure emits them.
# Here the test runs where q is known exactly: on drafter pieces, against the target's distribution seen through the
# expansions E(t). At a target position the node is the string of pieces accepted so far: 1. non-empty node: STOP with
# p(E(t) = node) / p(E(t) begins with node), and emit a t with E(t) = node; 2. else test the next drafted piece d with
# min(1, P(d) / q(d)), P = p restricted to tokens longer than the node,    summed by next piece; 3. rejected: draw t
# from that restricted p, keep it with 1 - min(1, q(d') / P(d')) for its next piece d', repeat    (this is the residual
# norm(max(0, P - q)) of speculative sampling, drawn without building it); 4. draft used up: draw t from the restricted
# p. Pieces behind a rejected one are void. Pieces drawn but untested when the logits run out are carried into the next
# round: redrawing them would bias the text, because whether logits run out depends on them.


def verify_by_rejection(
    rows: np.ndarray, proposals: Sequence[Proposal], pieces: Sequence[int], q: np.ndarray, recent: list[int], *,
    tree: ExpansionTree, sampler: Sampler, rng: np.random.Generator, ends: Callable[[int], bool],
) -> Verdict:  # fmt: skip
    """rows: (m + 1, V_target) logits behind the m proposals; q: (k, V_drafter), what each piece was drawn from."""
    verdict = Verdict()
    used = 0
    for i in range(len(proposals) + 1):
        candidates = sampler.prepare(rows[i], recent)
        p = sampler.probabilities(rows[i])
        drawn, used, rejected = emit(p, pieces, used, q, tree, rng)
        verdict.emitted.append(Emission(drawn, candidates, sampler.scores(drawn)))
        recent.append(drawn)
        if i < len(proposals):
            verdict.tested += 1
            if not rejected and drawn == proposals[i].target_id:
                verdict.accepted += 1
                if not ends(drawn):
                    continue
        verdict.carried = 0 if rejected or ends(drawn) else len(pieces) - used
        break
    return verdict


def emit(
    p: np.ndarray, pieces: Sequence[int], used: int, q: np.ndarray, tree: ExpansionTree, rng: np.random.Generator
) -> tuple[int, int, bool]:
    """One target token from p (V_target,), testing drafted pieces from index `used` on.

    Returns (token, index of the first untested piece, whether a piece was rejected).
    """
    node = tree.root
    while True:
        stop = p[tree.exact(node)].sum() if node.pieces else 0.0
        longer = p[tree.longer(node)].sum() if node.pieces else 1.0
        if node.pieces and rng.random() * (stop + longer) < stop:
            return _draw(p, tree.exact(node), rng), used, False
        if used == len(pieces):
            return _draw(p, tree.longer(node), rng), used, False
        child = tree.child(node, pieces[used])
        if rng.random() * q[used, pieces[used]] * longer < p[tree.ids[child.low : child.high]].sum():
            node, used = child, used + 1
            continue
        return _draw_residual(p, q[used], node, longer, tree, rng), used, True


def _draw_residual(
    p: np.ndarray, q: np.ndarray, node: Node, longer: float, tree: ExpansionTree, rng: np.random.Generator
) -> int:
    ids = tree.longer(node)
    while True:
        drawn = _draw(p, ids, rng)
        piece = tree.next_piece(node, drawn)
        child = tree.child(node, piece)
        share = p[tree.ids[child.low : child.high]].sum() / longer
        drafted = q[piece] if piece < q.shape[0] else 0.0
        if rng.random() * share < share - drafted:
            return drawn


def _draw(p: np.ndarray, ids: np.ndarray, rng: np.random.Generator) -> int:
    """One of `ids` in proportion to p."""
    sums = np.cumsum(p[ids])
    return int(ids[min(np.searchsorted(sums, rng.random() * sums[-1], side="right"), len(ids) - 1)])
