"""How often the target would accept what the drafter proposes, estimated on stored answers without running the target.

Per target token, along the pieces that were served (teacher forcing):
  direct: written with one piece, and that piece is the drafter's most likely one (direct map only, greedy);
  greedy: every piece is the most likely one (with n-gram merging, greedy);
  overlap: product over its pieces of sum_o min(P(o), q(o)), the acceptance of drawing from q against the target's
  projected distribution P; only named outcomes count, two draws from "other" hardly ever agree.
They are estimates: drafting on its own context, the length rule and the sampler's filters are not in them. Whether a
trained adapter may be served is judged by them alone, against what is served now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.losses import TINY, gather_log
from omnidraft.learning.training.teaching import Batch, Window, batches

REMEMBERED = 3  # adapters whose estimates are: what is served, the candidate, and what comes of it
FEWEST = 32  # held-out tokens without which nothing can be said


@dataclass(frozen=True)
class Estimate:
    """Per-token values, (T,) each, in the order of the windows given; two estimates of the same windows are paired.

    answer: (T,) int64, the place of the answer that each token is of among those estimated.
    """

    direct: np.ndarray
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

    def moved(self, change: np.ndarray) -> tuple[int, int]:
        """How many answers fell and rose by more than two standard errors of their own tokens' `change`, (T,)."""
        parts = [change[self.answer == number] for number in np.unique(self.answer)]
        far = [part.mean() / max(2 * standard_error(part), TINY) for part in parts]
        return sum(z < -1 for z in far), sum(z > 1 for z in far)

    def means(self) -> dict[str, float]:
        return {
            name: float(getattr(self, name).mean()) if self.tokens else 0.0 for name in ("direct", "greedy", "overlap")
        }


Answers = Mapping[int, Sequence[Window]]  # by replay ordinal


class Estimator:
    """Estimates; each answer's are made once for the same weights, of which the last few are remembered."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Estimate]] = {}

    def __call__(self, drafter: TorchDrafter, slices: Mapping[str, Answers]) -> dict[str, Estimate]:
        """Estimates of each slice ("old", "new")."""
        digest = drafter.digest()
        known = self._known.pop(digest, {})
        self._known = dict([*self._known.items(), (digest, known)][-REMEMBERED:])
        for answers in slices.values():
            unknown = [ordinal for ordinal in answers if ordinal not in known]
            known.update(zip(unknown, _estimate_each(drafter, [answers[o] for o in unknown]), strict=True))
        return {name: _joined([known[o] for o in answers]) for name, answers in slices.items()}


@torch.no_grad()
def _estimate_each(drafter: TorchDrafter, groups: Sequence[Sequence[Window]]) -> list[Estimate]:
    """Of each group of windows, over all tokens that have pieces and were captured."""
    found = dict[Window, Estimate]()
    for batch in batches([window for group in groups for window in group]):
        columns, row = _per_token(drafter, batch)
        for i, window in enumerate(batch.parts):
            own = row == i
            direct, greedy, overlap = (column[own] for column in columns)
            found[window] = Estimate(direct, greedy, overlap, row[own])
    return [_joined([found[window] for window in group]) for group in groups]


def _joined(parts: Sequence[Estimate]) -> Estimate:
    """One of several answers, or of the windows of one."""
    columns = zip(*((e.direct, e.greedy, e.overlap) for e in parts), strict=True) if parts else [[np.zeros(0)]] * 3
    direct, greedy, overlap = (np.concatenate(column) for column in columns)
    return Estimate(direct, greedy, overlap, np.repeat(np.arange(len(parts)), [part.tokens for part in parts]))


def _per_token(drafter: TorchDrafter, batch: Batch) -> tuple[list[np.ndarray], np.ndarray]:
    """(direct, greedy, overlap), each (T,), and the row of each token's window."""
    at, named, hidden = batch.positions, batch.positions.named, drafter.rows(batch)
    total, likeliest = drafter.output.overall(hidden)
    logq = drafter.output.logits(hidden, named) - total[:, None]
    hit = likeliest == at.piece
    both = torch.minimum(gather_log(logq, at.among(named).node.ids).exp(), at.node.p).sum(1)
    starts = (at.depth == 0) & at.taught
    every, overlap = (_product_per_token(v, batch)[at.token[starts]] for v in (hit.float(), both.clamp(0, 1)))
    found = ((hit & at.is_direct)[starts].float(), every, overlap)
    return [column.numpy() for column in found], batch.row[starts].numpy()


def _product_per_token(values: torch.Tensor, batch: Batch) -> torch.Tensor:
    """(N,) -> (T,): the product of each token's positions."""
    return torch.ones(batch.tokens).scatter_reduce(0, batch.positions.token, values, "prod")


def means(found: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    """What is told and kept of estimates."""
    return {name: {**{k: round(v, 4) for k, v in e.means().items()}, "tokens": e.tokens} for name, e in found.items()}


@dataclass(frozen=True)
class Verdict:
    """accepted: serve it. reason: one sentence. ruined: nothing can go on from such weights."""

    accepted: bool
    reason: str
    ruined: bool = False


def judge(before: Mapping[str, Estimate], after: Mapping[str, Estimate]) -> Verdict:
    """Compare the slices of `after` ("old", "new", "unseen") token by token.

    Accepted if the mean change over all held-out tokens is more than its standard error and no slice falls by more than
    its own: changes within the noise must not add up to a decline. Nor may more answers of a slice clearly fall than
    rise: a loop that is learned by heart does not pay for the others. Unseen answers may all be of one kind, so they
    alone cannot make up for any fall on those held out. What is refused is trained on (see `candidate`), so strictness
    costs little. This is a filter and no proof: one standard error lets through every sixth change that is none, and
    more as the tokens of an answer are alike; a version that turns out worse is taken back by `compare`.
    """
    changes = {name: after[name].combined - before[name].combined for name in after}
    everything = np.concatenate(list(changes.values())) if changes else np.zeros(0)
    if not np.isfinite(everything).all():
        return Verdict(False, "the trained adapter gives no numbers", ruined=True)
    if len(everything) < FEWEST:
        return Verdict(False, f"only {len(everything)} held-out tokens to judge by")
    for name, change in changes.items():
        if len(change) >= FEWEST and change.mean() < -standard_error(change):
            return Verdict(False, f"acceptance on {name} answers would fall by {-change.mean():.3f}")
        fell, rose = after[name].moved(change)
        if len(change) >= FEWEST and fell > rose:
            return Verdict(False, f"acceptance would fall on {fell} {name} answers and rise on {rose}")
    held = np.concatenate([change for name, change in changes.items() if name != "unseen"] or [np.zeros(0)])
    if "unseen" in changes and len(held) >= FEWEST and held.mean() < 0:
        return Verdict(False, f"acceptance on held-out answers would fall by {-held.mean():.3f}")
    if everything.mean() <= standard_error(everything):
        return Verdict(False, "acceptance on held-out answers did not rise beyond chance")
    return Verdict(True, f"acceptance on held-out answers rises by {everything.mean():.3f}")


def standard_error(change: np.ndarray) -> float:
    return float(change.std(ddof=1) / np.sqrt(len(change))) if len(change) > 1 else float("inf")
