"""What the drafter knew before is kept: in training it is held to itself on text it draws itself.

Trained on one topic's answers alone, an adapter drifts everywhere else: what comes up first is learned at the expense
of what comes up next. No one's text is needed against that (pseudo-rehearsal, Robins 1995; learning without forgetting,
Li and Hoiem 2016): the bare drafter draws some, and the adapted one is to give it the same probabilities. Such a text
is a window like any other, in which the bare drafter is the target: KL(bare || adapted) over its KEPT likeliest pieces
and "other", and by the drawn piece over what lies in "other" (`losses.projected`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.alignment import Outcomes, Teaching
from omnidraft.learning.training.batches import Window
from omnidraft.learning.training.drafter import TorchDrafter

DRAWN = 16  # texts for one update
SETS = 4  # of them; which one an update takes is up to its seed
LENGTH = 96  # pieces of one text
ROWS = 2  # texts of one optimizer step
KEPT = 64  # pieces a position


@torch.no_grad()
def draw(drafter: TorchDrafter, seed: int, drawn: int = DRAWN) -> list[Window]:
    """Texts of the bare drafter at temperature 1. Nobody else's random numbers are used up."""
    start = torch.full((drawn, 1), drafter.first_id)
    with torch.random.fork_rng(devices=[]), drafter.model.disable_adapter():
        torch.manual_seed(seed)
        ids = drafter.base.generate(
            start, attention_mask=torch.ones_like(start), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=LENGTH, pad_token_id=drafter.first_id,
            eos_token_id=drafter.output.size,  # none: behind the end of a text begins another one
        )  # fmt: skip
        return [_window(drafter, row) for row in ids]


def _window(drafter: TorchDrafter, ids: Tensor) -> Window:
    """A text as material: each piece behind the first is a token of its own."""
    q = drafter.output.log_probabilities(drafter.hidden(ids[None, :-1])[0]).exp()
    p, likeliest = q.topk(min(KEPT, drafter.output.size))
    outcomes = Outcomes(likeliest[..., None].numpy(), p.numpy(), (1 - p.sum(1)).clamp_min(0).numpy())
    n, piece = len(ids) - 1, ids[1:].numpy()
    ones, no = np.ones(n, np.int64), np.zeros(n, bool)
    taught = Teaching(
        piece, np.arange(n), 0 * ones, ones, no, ~no, q[np.arange(n), piece].numpy(), node=outcomes, direct=outcomes
    )
    return Window(ids.numpy(), taught)
