"""One update: gradient steps on windows of replayed answers. It knows nothing of processes, stores or versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from omnidraft.learning.training.batches import Window, batches
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.losses import LOSSES
from omnidraft.learning.training.rehearsal import Rehearsal

WINDOWS_PER_STEP = 8  # the paper's batch
LOGITS = 16_000_000  # floats of one (positions, vocabulary) matrix, 64 MB; a step keeps about four alive


@dataclass(frozen=True)
class Step:
    """Progress after one optimizer step. loss: mean over its positions, nats; tokens: pieces learned from so far."""

    step: int
    steps: int
    loss: float
    tokens: int


def longest_batch(vocabulary_size: int) -> int:
    """Padded ids per micro-batch that keep training inside its memory bound."""
    return max(128, min(2048, LOGITS // vocabulary_size))


def make_optimizer(drafter: TorchDrafter, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW as in the paper: betas 0.9 / 0.999; no decay, the adapter starts at zero."""
    return torch.optim.AdamW(drafter.parameters(), lr=learning_rate, betas=(0.9, 0.999), weight_decay=0.0)


def train(
    drafter: TorchDrafter,
    parts: Sequence[Window],
    loss: str,
    learning_rate: float,
    seed: int,
    passes: int = 1,
    windows_per_step: int = WINDOWS_PER_STEP,
    warmup: int = 2,
    optimizer: torch.optim.Optimizer | None = None,
    falling: bool = False,
    rehearsal: Rehearsal | None = None,
) -> Iterator[Step]:
    """Train on all windows `passes` times in random order, yielding after each optimizer step.

    falling: let the rate fall to zero on the way. At a constant rate the last steps of a short update make as much
    noise as there is left to gain, and the adapter at the end of a stream is worse (measured). rehearsal: its loss is
    added at every step, but not to what is told.
    """
    optimizer = optimizer or make_optimizer(drafter, learning_rate)
    rng, function = np.random.default_rng(seed), LOSSES[loss]
    per_pass = -(-len(parts) // windows_per_step)
    size, tokens, number = longest_batch(drafter.vocabulary_size), 0, 0
    for _ in range(passes):
        for group in np.array_split(rng.permutation(len(parts)), per_pass) if per_pass else []:
            chosen = [parts[i] for i in group]
            positions = sum(w.positions for w in chosen)
            total = 0.0
            for batch in batches(chosen, size):
                value = function(drafter.predict(batch), batch.positions)
                share = len(batch.positions.piece) / positions
                (value * share).backward()
                total += value.item() * share
            if rehearsal is not None:
                rehearsal.loss().backward()
            number += 1
            left = 1.0 - (number - 1) / (per_pass * passes) if falling else 1.0
            for settings in optimizer.param_groups:
                settings["lr"] = learning_rate * left * min(1.0, number / warmup)
            torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            tokens += positions
            yield Step(number, per_pass * passes, total, tokens)
