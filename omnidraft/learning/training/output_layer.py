"""The drafter's output layer, for the pieces that matter: what a loss names, what the drafter likes, and a sample.

log q of a piece is its logit less log Z, Z summing exp over the whole vocabulary. In training Z is summed over the
pieces that the batch names, the COMMON ones the drafter gives most to, and DRAWN others, drawn by what the drafter
gives them and weighted with the inverse of that (importance sampling, Bengio and Senecal 2003). The sum is unbiased;
its logarithm is too low by half its relative variance, see docs/measurements.md. Estimates sum over all pieces. It
knows nothing of losses.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from omnidraft.learning.training.adapted import adapted_product
from omnidraft.learning.training.frozen import product

COMMON, DRAWN = 1024, 512  # pieces; see above
BLOCK = 1024  # rows of the layer computed at once


class OutputLayer:
    """size: pieces in the vocabulary. `note` says what the drafter gives to each; until then it is the same to all."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._weight: Tensor = module.get_base_layer().weight if self._adapted else module.weight
        self.size = len(self._weight)
        self._given = torch.full((self.size,), 1 / self.size)

    @property
    def _adapted(self) -> bool:
        return hasattr(self._module, "lora_A") and not self._module.disable_adapters

    def logits(self, hidden: Tensor, pieces: Tensor | slice) -> Tensor:
        """(N, width), n pieces -> (N, n)."""
        weight = self._weight[pieces]
        if not self._adapted:
            return product(hidden, weight)
        a, b = (part["default"].weight for part in (self._module.lora_A, self._module.lora_B))
        return adapted_product(hidden, weight, a, b[pieces])

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """(N, width) -> (N, size)."""
        return torch.log_softmax(torch.cat([logits for _, logits in self._blocks(hidden)], 1), -1)

    @torch.no_grad()
    def overall(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(log Z, the likeliest piece) over the whole vocabulary, (N,) each."""
        total = hidden.new_full((len(hidden),), -torch.inf)
        highest, best = total.clone(), torch.zeros(len(hidden), dtype=torch.long)
        for start, logits in self._blocks(hidden):
            total = torch.logaddexp(total, logits.logsumexp(1))
            value, at = logits.max(1)
            best = torch.where(value > highest, at + start, best)
            highest = torch.maximum(value, highest)
        return total, best

    def estimate_log_probabilities(self, hidden: Tensor, named: Tensor) -> tuple[Tensor, Tensor]:
        """(pieces (n,), log q (N, n)): of the `named` pieces, of the common ones, and of some others."""
        listed = torch.cat([named, self._given.topk(min(COMMON, self.size)).indices]).unique()
        chance = self._given.index_fill(0, listed, 0)
        drawn = listed[:0] if len(listed) == self.size else torch.multinomial(chance, DRAWN, replacement=True)
        pieces = torch.cat([listed, drawn])
        weight = torch.cat([torch.zeros(len(listed)), -(DRAWN * chance[drawn] / chance.sum()).log()])
        logits = self.logits(hidden, pieces)
        return pieces, torch.log_softmax(logits + weight, 1) - weight

    @torch.no_grad()
    def note(self, hidden: Tensor) -> None:
        """Take up what the drafter gives to each piece, by these rows; a little is added for those it gives nothing."""
        total, _ = self.overall(hidden)
        q = torch.cat([(logits - total[:, None]).exp().mean(0) for _, logits in self._blocks(hidden)])
        self._given = 0.9 * q + 0.1 / self.size

    def _blocks(self, hidden: Tensor) -> Iterator[tuple[int, Tensor]]:
        for start in range(0, self.size, BLOCK):
            yield start, self.logits(hidden, slice(start, start + BLOCK))
