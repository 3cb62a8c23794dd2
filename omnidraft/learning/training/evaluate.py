"""How often the target would accept what the drafter proposes, estimated on stored answers without running the target.

Per target token, along the pieces that were served (teacher forcing):
  direct: written with one piece, and that piece is the drafter's most likely one (direct map only, greedy);
  greedy: every piece is the most likely one (with n-gram merging, greedy);
  overlap: product over its pieces of sum_o min(P(o), q(o)), the acceptance of drawing from q against the target's
  projected distribution P; only named outcomes count, two draws from "other" hardly ever agree.
They are estimates: drafting on its own context, the length rule and the sampler's filters are not in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from omnidraft.learning.training.batches import Batch, Window, batches
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.losses import gather_log


@dataclass(frozen=True)
class Estimate:
    """Per-token values, (T,) each, in the order of the windows given; two estimates of the same windows are paired."""

    direct: np.ndarray
    greedy: np.ndarray
    overlap: np.ndarray

    @property
    def tokens(self) -> int:
        return len(self.greedy)

    def means(self) -> dict[str, float]:
        return {
            name: float(getattr(self, name).mean()) if self.tokens else 0.0 for name in ("direct", "greedy", "overlap")
        }


@torch.no_grad()
def estimate(drafter: TorchDrafter, parts: Iterable[Window], longest_batch: int = 2048) -> Estimate:
    """Acceptance estimates over all tokens of `parts` that have pieces and were captured."""
    columns: list[list[np.ndarray]] = [[], [], []]
    for batch in batches(list(parts), longest_batch):
        for column, values in zip(columns, _per_token(drafter.predict(batch), batch), strict=True):
            column.append(values)
    return Estimate(*(np.concatenate(c) if c else np.zeros(0) for c in columns))


def _per_token(logq: torch.Tensor, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = batch.positions
    hit = logq.argmax(1) == at.piece
    both = torch.minimum(gather_log(logq, at.node.ids).exp(), at.node.p).sum(1)
    every = _product_per_token(hit.float(), batch)
    overlap = _product_per_token(both.clamp(0, 1), batch)
    starts = (at.depth == 0) & at.taught
    token = at.token[starts]
    return (
        (hit & at.is_direct)[starts].float().numpy(),
        every[token].numpy(),
        overlap[token].numpy(),
    )


def _product_per_token(values: torch.Tensor, batch: Batch) -> torch.Tensor:
    """(N,) -> (T,): the product of each token's positions."""
    return torch.ones(batch.tokens).scatter_reduce(0, batch.positions.token, values, "prod")
