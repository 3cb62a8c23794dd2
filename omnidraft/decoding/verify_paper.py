"""The paper's verification as published (arXiv 2507.02659, Alg. 1 with Eq. 1-2), kept for comparison: *approximate*.

q'(t) is q(d) for a direct map and the product of q(d_j) for a merged n-gram (Eq. 1). Where an n-gram was merged,
q' over the target vocabulary gives the n-gram the product, its first piece q(d1) - product and every other mapped
token its q (Eq. 2). Only n-grams merged in this round are adjusted, so q' is not what the drafter proposes with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.verify import Emission, Verdict
from omnidraft.vocab import Proposal


def verify_as_published(
    rows: np.ndarray, proposals: Sequence[Proposal], pieces: Sequence[int], q: np.ndarray, recent: list[int], *,
    direct: np.ndarray, sampler: Sampler, rng: np.random.Generator, ends: Callable[[int], bool],
) -> Verdict:  # fmt: skip
    """rows: (m + 1, V_target) logits; q: (k, V_drafter); direct: (V_drafter,) target id of each piece, -1 if none."""
    verdict = Verdict()
    for i in range(len(proposals) + 1):
        candidates = sampler.prepare(rows[i], recent)
        p = sampler.probabilities(rows[i])
        accepted = False
        if i == len(proposals):
            drawn = int(rng.choice(len(p), p=p))
        else:
            verdict.tested += 1
            mapped = translated_q(proposals[i], pieces, q, direct, len(p))
            drawn = proposals[i].target_id
            accepted = rng.random() * mapped[drawn] < p[drawn]
            if not accepted:
                residual = np.maximum(p - mapped, 0.0)
                total = residual.sum()
                drawn = int(rng.choice(len(p), p=residual / total if total > 0 else p))
        verdict.emitted.append(Emission(drawn, candidates, sampler.scores(drawn)))
        recent.append(drawn)
        if not accepted:
            break
        verdict.accepted += 1
        if ends(drawn):
            break
    return verdict


def translated_q(proposal: Proposal, pieces: Sequence[int], q: np.ndarray, direct: np.ndarray, size: int) -> np.ndarray:
    """q' (size,) at the position of `proposal` (Eq. 1-2)."""
    first = q[proposal.start]
    known = direct >= 0
    mapped = np.bincount(direct[known], weights=first[known], minlength=size)
    if proposal.pieces > 1:
        span = range(proposal.start, proposal.start + proposal.pieces)
        product = float(np.prod([q[j, pieces[j]] for j in span]))
        mapped[proposal.target_id] += product
        head = direct[pieces[proposal.start]]
        if head >= 0:
            mapped[head] = max(0.0, mapped[head] - product)
    return mapped
