"""What the drafter knew before is kept: in training it is held to itself on text it draws itself.

Trained on one topic's answers alone, an adapter drifts everywhere else: what comes up first is learned at the expense
of what comes up next. No one's text is needed against that (pseudo-rehearsal, Robins 1995; learning without forgetting,
Li and Hoiem 2016): the bare drafter draws some, and the adapted one is to give it the same probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.drafter import TorchDrafter

DRAWN = 32  # texts for one update
SETS = 4  # of them; which one an update takes is up to its seed
LENGTH = 96  # pieces of one text
ROWS = 2  # texts of one optimizer step


def divergence(logp: Tensor, logq: Tensor) -> Tensor:
    """KL(p || q) in nats, mean over positions; logp, logq: (..., D) log probabilities. A scalar."""
    return torch.nn.functional.kl_div(logq, logp, reduction="sum", log_target=True) / logp[..., 0].numel()


@dataclass(frozen=True)
class Texts:
    """ids: (texts, 1 + LENGTH) drawn by the bare drafter at temperature 1; hidden: (texts, LENGTH, width), its last
    hidden states on all of them but the last piece."""

    ids: Tensor
    hidden: Tensor


def draw(drafter: TorchDrafter, seed: int, drawn: int = DRAWN) -> Texts:
    """The adapter takes no part in it, and nobody else's random numbers are used up."""
    start = torch.full((drawn, 1), drafter.first_id)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), drafter.model.disable_adapter():
        torch.manual_seed(seed)
        ids = drafter.base.generate(
            start, attention_mask=torch.ones_like(start), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=LENGTH, pad_token_id=drafter.first_id,
            eos_token_id=drafter.vocabulary_size,  # none: behind the end of a text begins another one
        )  # fmt: skip
        return Texts(ids, drafter.hidden(ids[:, :-1]))


class Rehearsal:
    """The loss on texts of the bare drafter.

    drafter: with its adapter; weight: of the divergence in the loss; longest: most ids of one step; seed: of the order
    in which the texts come.
    """

    def __init__(self, drafter: TorchDrafter, weight: float, longest: int, seed: int, texts: Texts) -> None:
        self._drafter, self._weight, self._rng = drafter, weight, np.random.default_rng(seed)
        self._rows, self._texts = min(max(1, min(ROWS, longest // LENGTH)), len(texts.ids)), texts

    def loss(self) -> Tensor:
        """`weight` times KL(bare || adapted) over all pieces of the next few texts."""
        chosen = self._rng.choice(len(self._texts.ids), self._rows, replace=False)
        with torch.no_grad(), self._drafter.model.disable_adapter():
            bare = self._drafter.log_probabilities(self._texts.hidden[chosen])
        adapted = self._drafter.log_probabilities(self._drafter.hidden(self._texts.ids[chosen, :-1]))
        return self._weight * divergence(bare, adapted)
