"""One update: gradient steps on windows of replayed answers. It knows nothing of processes, stores or versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from omnidraft.learning.training.batches import Batch, Window, batches
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.losses import LOSSES, Loss, divergence
from omnidraft.learning.training.rehearsal import ROWS
from omnidraft.learning.training_events import Stepped

WINDOWS_PER_STEP = 8  # the paper's batch
PIECES_READ, PIECES_LEARNED = 768, 384  # of one step: of long answers fewer windows do, and some of their tokens
LOOKED_AT = 256  # positions that tell which pieces are common


def make_optimizer(drafter: TorchDrafter, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW as in the paper: betas 0.9 / 0.999; no decay, the adapter starts at zero."""
    return torch.optim.AdamW(drafter.parameters(), lr=learning_rate, betas=(0.9, 0.999), weight_decay=0.0)


class Trainer:
    """Gradients of batches of windows."""

    def __init__(self, drafter: TorchDrafter, parts: Sequence[Window]) -> None:
        self.drafter = drafter
        drafter.output.note(self._some_rows(parts))

    def backward(self, batch: Batch, function: Loss, weight: float) -> float:
        """Add the gradient of `weight` times the loss; the loss."""
        hidden, at = self.drafter.rows(batch), batch.positions
        pieces, logq = self.drafter.output.estimate_log_probabilities(hidden, at.named)
        value = function(logq, at.among(pieces))
        (value * weight).backward()
        return value.item()

    @torch.no_grad()
    def _some_rows(self, parts: Sequence[Window]) -> Tensor:
        """Last hidden states at LOOKED_AT positions, or all there are."""
        found = list[Tensor]()
        for batch in batches(parts):
            if sum(map(len, found)) < LOOKED_AT:
                found.append(self.drafter.rows(batch))
        return torch.cat(found)[:LOOKED_AT]


def train(
    drafter: TorchDrafter,
    parts: Sequence[Window],
    loss: str,
    learning_rate: float,
    seed: int,
    least: int = 1,
    passes: int = 1,
    rehearsed: Sequence[Window] = (),
    rehearsal: float = 0.0,
    warmup: int = 2,
) -> Iterator[Stepped]:
    """Train on all windows `passes` times in random order, and on for `least` steps, yielding after each.

    The rate falls to zero on the way: at a constant rate the last steps of a short update make as much noise as there
    is left to gain, and the adapter at the end of a stream is worse (measured). rehearsed: texts of the bare drafter,
    a few of which are added to every step with the weight `rehearsal`, but not to what is told.
    """
    optimizer, trainer = make_optimizer(drafter, learning_rate), Trainer(drafter, parts)
    rng, tokens = np.random.default_rng(seed), 0
    groups = _groups(parts, rng, least, passes)
    for number, group in enumerate(groups, 1):
        chosen = _learned(group, rng)
        positions, total = sum(len(batch.row) for batch in chosen), 0.0
        for batch in chosen:
            share = len(batch.row) / positions
            total += share * trainer.backward(batch, LOSSES[loss], share)
        for batch in batches([rehearsed[i] for i in rng.permutation(len(rehearsed))[:ROWS]] if rehearsal else []):
            trainer.backward(batch, divergence, rehearsal * len(batch.parts) / ROWS)
        for settings in optimizer.param_groups:
            settings["lr"] = learning_rate * (1 - (number - 1) / len(groups)) * min(1.0, number / warmup)
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += positions
        yield Stepped(number, len(groups), total, tokens)


def _learned(group: Sequence[Window], rng: np.random.Generator) -> list[Batch]:
    """The step's batches: of long answers with some of their tokens, for what costs is the number of predictions, and
    those of one answer are alike."""
    found, share = list(batches(group)), PIECES_LEARNED / sum(w.positions for w in group)
    if share >= 1:
        return found
    thinned = [batch.only(torch.from_numpy(rng.random(batch.tokens) < share)) for batch in found]
    return [batch for batch in thinned if len(batch.row)] or found


def _groups(parts: Sequence[Window], rng: np.random.Generator, least: int, passes: int) -> list[list[Window]]:
    """The windows of each step: pass after pass over all of them, each in an order of its own."""
    groups: list[list[Window]] = []
    while passes > 0 or len(groups) < least:
        group: list[Window] = []
        for i in rng.permutation(len(parts)):
            full = len(group) == WINDOWS_PER_STEP or sum(len(w.ids) for w in group) >= PIECES_READ
            if full:
                groups.append(group)
                group = []
            group.append(parts[i])
        groups.append(group)
        passes -= 1
    return groups
