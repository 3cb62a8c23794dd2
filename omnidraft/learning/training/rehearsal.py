"""What the drafter knew before is kept: in training it is held to itself on text it draws itself.

Trained on one topic's answers alone, an adapter drifts everywhere else: what comes up first is learned at the expense
of what comes up next. No one's text is needed against that (pseudo-rehearsal, Robins 1995; learning without forgetting,
Li and Hoiem 2016): the bare drafter draws some, and the adapted one is to give it the same probabilities.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.drafter import TorchDrafter

DRAWN = 32  # texts for one update
LENGTH = 96  # pieces of one
ROWS = 4  # texts of one optimizer step


def divergence(logp: Tensor, logq: Tensor) -> Tensor:
    """KL(p || q) in nats, mean over positions; logp, logq: (..., D) log probabilities. A scalar."""
    return torch.nn.functional.kl_div(logq, logp, reduction="sum", log_target=True) / logp[..., 0].numel()


class Rehearsal:
    """Texts the bare drafter has drawn at temperature 1, and the loss on them.

    drafter: with its adapter, which takes no part in the drawing; weight: of the divergence in the loss; longest: most
    ids of one step; seed: of what is drawn and in which order it comes.
    """

    def __init__(self, drafter: TorchDrafter, weight: float, longest: int, seed: int, drawn: int = DRAWN) -> None:
        self._drafter, self._weight, self._rng = drafter, weight, np.random.default_rng(seed)
        self._rows = max(1, min(ROWS, longest // LENGTH))
        start = torch.full((drawn, 1), drafter.first_id)
        with torch.random.fork_rng(devices=[]), torch.no_grad(), drafter.model.disable_adapter():
            torch.manual_seed(seed)
            self.texts: Tensor = drafter.base.generate(
                start, attention_mask=torch.ones_like(start), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                max_new_tokens=LENGTH, pad_token_id=drafter.first_id,
                eos_token_id=drafter.vocabulary_size,  # none: behind the end of a text begins another one
            )  # fmt: skip

    def loss(self) -> Tensor:
        """`weight` times KL(bare || adapted) over all pieces of the next few texts."""
        ids = self.texts[self._rng.choice(len(self.texts), min(self._rows, len(self.texts)), replace=False)]
        with torch.no_grad(), self._drafter.model.disable_adapter():
            bare = self._log_probabilities(ids)
        return self._weight * divergence(bare, self._log_probabilities(ids))

    def _log_probabilities(self, ids: Tensor) -> Tensor:
        """What the drafter expects after each piece but the last, (B, L - 1, D)."""
        return self._drafter.log_probabilities(self._drafter.hidden(ids[:, :-1]))
