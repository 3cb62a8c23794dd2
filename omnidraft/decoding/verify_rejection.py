"""Exact rejection sampling across vocabularies, piece by piece in the drafter's vocabulary.

The paper's p/q test (Alg. 1) on merged tokens uses q' of Eq. 1-2, which is not the probability with which the
proposal procedure emits them. Here the test runs where q is known exactly: on drafter pieces, against the target's
distribution seen through the expansions E(t). At a target position the node is the string of pieces accepted so far:

1. non-empty node: STOP with p(E(t) = node) / p(E(t) begins with node), and emit a t with E(t) = node;
2. else test the next drafted piece d with min(1, P(d) / q(d)), P = p restricted to tokens longer than the node,
   summed by next piece;
3. rejected: draw t from that restricted p, keep it with 1 - min(1, q(d') / P(d')) for its next piece d', repeat
   (this is the residual norm(max(0, P - q)) of speculative sampling, drawn without building it);
4. draft used up: draw t from the restricted p.

Pieces behind a rejected one are void. Pieces drawn but untested when the logits run out are carried into the next
round: redrawing them would bias the text, because whether logits run out depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from omnidraft.decoding.expansion_tree import ExpansionTree, Node
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.verify import Emission, Verdict
from omnidraft.vocab import Proposal


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
