"""The distillation losses, each one function a reader can check against the formula in its docstring.

Every function takes `logq`, the drafter's log probabilities at N positions, (N, D) float32, and a `Positions`, whose
ids are columns of `logq` (all D pieces, or some: `Positions.among`); it returns the sum of its terms in nats divided by
N, a scalar. p is the target at temperature 1 over its captured candidates plus one outcome "other"; q the drafter.
"Other" takes part in every KL with the mass both sides give it: nothing is renormalised away, so with fewer candidates
each KL becomes a lower bound of the full one (log-sum inequality).

Paper: "OmniDraft", arXiv 2507.02659, Eq. 1-4. This module knows nothing of models or records.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omnidraft.learning.training.teaching import Outcomes, Positions

TINY = 1e-12
LAMBDA = 0.2  # of the n-grams in `hybrid`
Loss = Callable[[Tensor, Positions], Tensor]


def hybrid(logq: Tensor, at: Positions) -> Tensor:
    """L_DM + lambda L_N-gram (Eq. 4).

    L_DM, reverse KL on directly mapped positions (Eq. 3, first term): the sum over positions whose token maps directly
    of sum_o q'(o) log(q'(o) / p(o)); outcomes o: the candidates that map directly, q'(o) = sum of q over the pieces with
    o's bytes (Eq. 1), and "other". L_N-gram: -log q(d_i) on every piece of tokens written with several pieces (Eq. 3,
    second term).
    """
    kl = _reverse_kl(gather_log(logq, at.direct.ids), at.direct)
    return _mean(kl, at.is_direct & at.taught) + LAMBDA * _mean(_nll(logq, at), at.length > 1)


def divergence(logq: Tensor, at: Positions) -> Tensor:
    """Forward KL of the target projected into the drafter's pieces (ours).

    At piece j of token t, with P(d) the sum of p over all tokens whose expansion shares t's first j pieces, is longer
    and goes on with d, normalised over such tokens: sum_o P(o) log(P(o) / q(o)), o: the candidates' next pieces and
    "other". No weight between direct tokens and n-grams is needed, and no stop term where the text was sampled at
    temperature 1.

    Where the served piece lies in "other", -log(q(piece) / q(other)) is added: by the chain rule an unbiased sample of
    what KL over the full vocabulary says about the inside of "other".
    """
    logq_o = gather_log(logq, at.node.ids)
    p, log_other = at.node.p, log_other_mass(logq_o)
    kl = torch.special.xlogy(p, p.clamp_min(TINY)).sum(1) - (p * logq_o.masked_fill(p == 0, 0)).sum(1)
    kl = kl + torch.special.xlogy(at.node.other, at.node.other.clamp_min(TINY)) - at.node.other * log_other
    outside = ~((at.node.ids == at.piece[:, None, None]) & (p > 0)[..., None]).any(-1).any(-1)
    inside_other = _nll(logq, at) + log_other
    return _mean(kl + outside * inside_other, at.taught) + _mean(_nll(logq, at), ~at.taught)


def projected(logq: Tensor, at: Positions) -> Tensor:
    """`divergence` + the chance that what q draws is rejected, 1 - sum_o min(P(o), q(o)) (ours).

    The second term is what verification minds (Leviathan et al. 2023, Theorem 3.5), but says nothing to a q that is far
    from P; the first one brings it near.
    """
    q = gather_log(logq, at.node.ids).exp()
    return divergence(logq, at) + _mean(1 - torch.minimum(at.node.p, q).sum(1), at.taught)


LOSSES: dict[str, Loss] = {"hybrid": hybrid, "projected": projected}


def _nll(logq: Tensor, at: Positions) -> Tensor:
    """-log q of the served pieces, (N,)."""
    return -logq.gather(1, at.piece[:, None])[:, 0]


def gather_log(logq: Tensor, ids: Tensor) -> Tensor:
    """log of the summed probability of each outcome's pieces, (N, K); log TINY where unused."""
    parts = logq.gather(1, ids.clamp_min(0).flatten(1)).view(ids.shape)
    if ids.shape[2] == 1:
        return parts[..., 0].masked_fill(ids[..., 0] < 0, -27.631)
    return parts.masked_fill(ids < 0, -27.631).logsumexp(-1)


def log_other_mass(logq_o: Tensor) -> Tensor:
    """log of the drafter's mass outside the named outcomes, (N,). Unused ones carry 1e-12 each."""
    return (1 - logq_o.exp().sum(1)).clamp_min(1e-7).log()


def _reverse_kl(logq_o: Tensor, o: Outcomes[Tensor]) -> Tensor:
    """sum_o q(o) log(q(o) / p(o)) over the named outcomes and "other", (N,)."""
    used = o.p > 0
    logq_o = logq_o.masked_fill(~used, -27.631)
    q, log_other = logq_o.exp(), log_other_mass(logq_o)
    named = torch.where(used, q * (logq_o - o.p.clamp_min(TINY).log()), 0).sum(1)
    return named + log_other.exp() * (log_other - o.other.clamp_min(1e-6).log())


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the masked positions divided by all N, so that terms of different positions add up with equal weight."""
    return torch.where(mask, values, 0).sum() / max(len(values), 1)
