"""What the drafter is to get better at: losses that training minimises, and estimates by which the gate judges.

A loss is a function that a reader can check against the formula in its docstring. It takes `logq`, the drafter's log
probabilities at N positions, (N, D) float32, and a `Positions`, whose ids are columns of `logq` (all D pieces, or some:
`Positions.among`); it returns the sum of its terms in nats divided by N, a scalar. p is the target at temperature 1
over its captured candidates plus one outcome "other"; q the drafter. "Other" takes part in every KL with the mass both
sides give it: nothing is renormalised away, so with fewer candidates each KL becomes a lower bound of the full one
(log-sum inequality). Paper: "OmniDraft", arXiv 2507.02659, Eq. 1-4.

An estimate says how often the target would accept what the drafter proposes, on stored answers, without running the
target. Per target token, along the pieces that were served (teacher forcing):
  greedy: every piece is the most likely one (with n-gram merging, greedy);
  overlap: product over its pieces of sum_o min(P(o), q(o)), the acceptance of drawing from q against the target's
  projected distribution P; only named outcomes count, two draws from "other" hardly ever agree.
Tokens of a loop are not counted: easily learned by heart, those of one answer would pay for all others. Drafting on its
own context, the length rule and the sampler's filters are not in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.teaching import Batch, Outcomes, Positions, Window, batches

TINY = 1e-12
LAMBDA = 0.2  # of the n-grams in `hybrid`
FEWEST = 32  # held-out tokens without which nothing can be said
ENOUGH = 4  # held-out answers whose mean says something; of one or two every other falls by chance
Loss = Callable[[Tensor, Positions], Tensor]


def hybrid(logq: Tensor, at: Positions) -> Tensor:
    """L_DM + lambda L_N-gram (Eq. 4).

    L_DM, reverse KL on directly mapped positions (Eq. 3, first term): the sum over positions whose token maps directly
    of sum_o q'(o) log(q'(o) / p(o)); outcomes o: the candidates that map directly, q'(o) = sum of q over the pieces
    with o's bytes (Eq. 1), and "other". L_N-gram: -log q(d_i) on every piece of tokens written with several pieces
    (Eq. 3, second term).
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


# Whether a trained adapter may be served is judged by estimates alone, against what is served now.


@dataclass(frozen=True)
class Estimate:
    """Per-token values, (T,) each, in the order of the windows given; two estimates of the same windows are paired.

    answer: (T,) int64, the place of the answer that each token is of among those estimated.
    """

    greedy: np.ndarray
    overlap: np.ndarray
    answer: np.ndarray

    @property
    def tokens(self) -> int:
        return len(self.greedy)

    @property
    def answers(self) -> int:
        return len(np.unique(self.answer))

    @property
    def combined(self) -> np.ndarray:
        """Half greedy, half drawn: answers are given both ways and neither may pay for the other."""
        return (self.greedy + self.overlap) / 2

    def moved(self, change: np.ndarray) -> tuple[int, int]:
        """How many answers fell and rose by more than two standard errors of their own tokens' `change`, (T,)."""
        parts = [change[self.answer == number] for number in np.unique(self.answer)]
        far = [part.mean() / max(2 * standard_error(part), TINY) for part in parts]
        return sum(z < -1 for z in far), sum(z > 1 for z in far)


Answers = Mapping[int, Sequence[Window]]  # by replay ordinal


def estimates(drafter: TorchDrafter, slices: Mapping[str, Answers]) -> dict[str, Estimate]:
    """Estimates of each slice ("old", "new")."""
    return {name: _joined(_estimate_each(drafter, [*answers.values()])) for name, answers in slices.items()}


@torch.no_grad()
def _estimate_each(drafter: TorchDrafter, groups: Sequence[Sequence[Window]]) -> list[Estimate]:
    """Of each group of windows, over all tokens that have pieces and were captured."""
    found = dict[Window, Estimate]()
    for batch in batches([window for group in groups for window in group]):
        columns, row = _per_token(drafter, batch)
        for i, window in enumerate(batch.parts):
            own = row == i
            greedy, overlap = (column[own] for column in columns)
            found[window] = Estimate(greedy, overlap, row[own])
    return [_joined([found[window] for window in group]) for group in groups]


def _joined(parts: Sequence[Estimate]) -> Estimate:
    """One of several answers, or of the windows of one."""
    columns = zip(*((e.greedy, e.overlap) for e in parts), strict=True) if parts else [[np.zeros(0)]] * 2
    greedy, overlap = (np.concatenate(column) for column in columns)
    return Estimate(greedy, overlap, np.repeat(np.arange(len(parts)), [part.tokens for part in parts]))


def _per_token(drafter: TorchDrafter, batch: Batch) -> tuple[list[np.ndarray], np.ndarray]:
    """(greedy, overlap), each (T,), and the row of each token's window."""
    at, named, hidden = batch.positions, batch.positions.named, drafter.rows(batch)
    total, likeliest = drafter.output.overall(hidden)
    logq = drafter.output.logits(hidden, named) - total[:, None]
    hit = likeliest == at.piece
    both = torch.minimum(gather_log(logq, at.among(named).node.ids).exp(), at.node.p).sum(1)
    starts = (at.depth == 0) & at.taught & ~at.looped
    found = [_product_per_token(v, batch)[at.token[starts]].numpy() for v in (hit.float(), both.clamp(0, 1))]
    return found, batch.row[starts].numpy()


def _product_per_token(values: Tensor, batch: Batch) -> Tensor:
    """(N,) -> (T,): the product of each token's positions."""
    return torch.ones(batch.tokens).scatter_reduce(0, batch.positions.token, values, "prod")


def means(found: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    """What is told and kept of estimates."""
    mean = lambda values: round(float(values.mean()), 4) if len(values) else 0.0  # noqa: E731
    return {
        name: {"greedy": mean(e.greedy), "overlap": mean(e.overlap), "tokens": e.tokens} for name, e in found.items()
    }


@dataclass(frozen=True)
class Verdict:
    """accepted: serve it. reason: one sentence. falls: what is known speaks against it, not just too little for it.
    ruined: nothing can go on from such weights."""

    accepted: bool
    reason: str
    falls: bool = False
    ruined: bool = False


def judge(before: Mapping[str, Estimate], after: Mapping[str, Estimate]) -> Verdict:
    """Compare the slices of `after` ("old", "new", "unseen") token by token.

    Accepted if the mean change over all held-out tokens is more than its standard error and no slice of `ENOUGH`
    answers falls by more than its own: changes within the noise must not add up to a decline. Nor may more answers of
    such a slice clearly fall than rise: a loop that is learned by heart does not pay for the others. Unseen answers may
    all be of one kind, so they alone cannot make up for any fall on those held out, if these are enough. This is a
    filter and no proof: one standard error lets through every sixth change that is none, and more as the tokens of an
    answer are alike. Where fewer answers are held out than say something, any rise of theirs will do: behind 16 answers
    of mathematics all of eight drafters were better on others, by .020 to .054, and their one or two held-out answers
    showed that of three.
    """
    changes = {name: after[name].combined - before[name].combined for name in after}
    everything = np.concatenate(list(changes.values())) if changes else np.zeros(0)
    if not np.isfinite(everything).all():
        return Verdict(False, "the trained adapter gives no numbers", ruined=True)
    if len(everything) < FEWEST:
        return Verdict(False, f"only {len(everything)} held-out tokens to judge by")
    for name, change in changes.items():
        if len(change) < FEWEST or after[name].answers < ENOUGH:
            continue
        if change.mean() < -standard_error(change):
            return Verdict(False, f"acceptance on {name} answers would fall by {-change.mean():.3f}", falls=True)
        fell, rose = after[name].moved(change)
        if fell > rose:
            return Verdict(False, f"acceptance would fall on {fell} {name} answers and rise on {rose}", falls=True)
    held = {name: change for name, change in changes.items() if name != "unseen"}
    if "unseen" in changes and sum(after[name].answers for name in held) >= ENOUGH:
        fall = -np.concatenate([*held.values()]).mean()
        if fall > 0:
            return Verdict(False, f"acceptance on held-out answers would fall by {fall:.3f}", falls=True)
    few = sum(estimate.answers for estimate in after.values()) < ENOUGH
    if everything.mean() <= (0.0 if few else standard_error(everything)):
        return Verdict(False, "acceptance on held-out answers did not rise beyond chance")
    return Verdict(True, f"acceptance on held-out answers rises by {everything.mean():.3f}")


def standard_error(change: np.ndarray) -> float:
    return float(change.std(ddof=1) / np.sqrt(len(change))) if len(change) > 1 else float("inf")
