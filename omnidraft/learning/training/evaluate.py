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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.teaching import Batch, Outcomes, Positions, Window, batches

TINY = 1e-12
LAMBDA = 0.2  # of the n-grams in `hybrid`
ENOUGH = 4  # held-out answers of a slice whose mean says something; of one or two every other falls by chance
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
    def combined(self) -> np.ndarray:
        """Half greedy, half drawn: answers are given both ways and neither may pay for the other."""
        return (self.greedy + self.overlap) / 2


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


@dataclass(frozen=True)
class Change:
    """Of a slice's tokens, (T,), each of the answer with that number."""

    name: str
    values: np.ndarray
    answer: np.ndarray

    @classmethod
    def of(cls, name: str, before: Estimate, after: Estimate) -> Change:
        return cls(name, after.combined - before.combined, np.unique(after.answer, return_inverse=True)[1])

    @classmethod
    def together(cls, parts: Sequence[Change]) -> Change:
        """Of all of them; no answer is in two slices."""
        before = np.cumsum([0, *(part.answers for part in parts)])
        answer = [part.answer + number for part, number in zip(parts, before, strict=False)]
        return cls("all", np.concatenate([part.values for part in parts]), np.concatenate(answer))

    @property
    def answers(self) -> int:
        return int(self.answer.max(initial=-1)) + 1

    @property
    def mean(self) -> float:
        return float(self.values.mean()) if len(self.values) else 0.0

    @property
    def standard_error(self) -> float:
        """Of the mean; the tokens of an answer are alike, only answers are independent (cluster-robust: Liang and Zeger
        1986)."""
        n = self.answers
        sums = np.bincount(self.answer, self.values - self.mean)
        return float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(self.values)) if n > 1 else math.inf

    def without_risen(self) -> Change:
        """Of the answers that did not rise by more than two standard errors of their own tokens' change."""
        parts = [self.values[self.answer == number] for number in range(self.answers)]
        risen = [part.mean() * np.sqrt(len(part)) > 2 * part.std() for part in parts]
        kept = ~np.array(risen, bool)[self.answer]
        return Change(self.name, self.values[kept], np.unique(self.answer[kept], return_inverse=True)[1])


def judge(before: Mapping[str, Estimate], after: Mapping[str, Estimate]) -> Verdict:
    """Compare the slices of `after` ("old", "new", "unseen") token by token.

    Accepted if the mean change over all of them is more than its standard error and no slice of `ENOUGH` answers falls
    by more than its own: changes within the noise must not add up to a decline. Unseen answers may all be of one kind,
    so they alone cannot make up for any fall on those held out, if these are enough; nor does what some of these
    clearly gain pay for what the others lose. This is a filter and no proof: one standard error lets through every
    sixth change that is none. Answers are counted, not tokens: a drafter that had learned three answers by heart made
    forty-eight others worse by .009, and the one held out better by .044, four standard errors of its tokens. A single
    answer therefore says nothing, of two both must rise.
    """
    changes = [Change.of(name, before[name], after[name]) for name in after]
    everything = Change.together(changes)
    if not np.isfinite(everything.values).all():
        return Verdict(False, "the trained adapter gives no numbers", ruined=True)
    if everything.answers < 2:
        return Verdict(False, "a single held-out answer is too little to judge by")
    for change in changes:
        if change.answers >= ENOUGH and change.mean < -change.standard_error:
            return Verdict(False, f"acceptance on {change.name} answers would fall by {-change.mean:.3f}", falls=True)
    held = Change.together([change for change in changes if change.name != "unseen"])
    if held.answers >= ENOUGH:
        if "unseen" in after and held.mean < 0:
            return Verdict(False, f"acceptance on held-out answers would fall by {-held.mean:.3f}", falls=True)
        rest = held.without_risen()
        if rest.mean < -rest.standard_error:
            return Verdict(False, f"acceptance would fall by {-rest.mean:.3f} on answers that gain nothing", falls=True)
    if everything.mean <= everything.standard_error:
        return Verdict(False, "acceptance on held-out answers did not rise beyond chance")
    return Verdict(True, f"acceptance on held-out answers rises by {everything.mean:.3f}")
