"""A frozen layer and its LoRA as one product: what PEFT adds up from three tensors of the layer's size is computed into
one, and the way back needs none besides the gradient itself."""

from __future__ import annotations

import torch
from peft.tuners.lora import Linear
from torch import Tensor

from omnidraft.learning.training.frozen import multiplied, multiplied_back


class AdaptedLinear(Linear):
    """PEFT's layer over a `FrozenLinear`: x W^T + x A^T B^T, at scale 1 and without dropout."""

    def forward(self, x: Tensor) -> Tensor:
        if self.disable_adapters:
            return self.base_layer(x)
        a, b = (part["default"].weight for part in (self.lora_A, self.lora_B))
        found, bias = adapted_product(x, self.base_layer.weight, a, b), self.base_layer.bias
        return found if bias is None else found + bias


def adapted_product(x: Tensor, weight: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """x W^T + x A^T B^T, (..., in) -> (..., out)."""
    return _Adapted.apply(x, weight, a, b)


class _Adapted(torch.autograd.Function):
    """With W (out, in) in half precision, A (rank, in), B (out, rank); gradients go to x, A and B."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, a: Tensor, b: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        inner = rows @ a.T
        ctx.weight = weight
        ctx.save_for_backward(rows, inner, a, b)
        return multiplied(rows, weight).addmm_(inner, b.T).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, None, Tensor, Tensor]:
        rows, inner, a, b = ctx.saved_tensors
        given = gradient.flatten(0, -2)
        to_inner, to_x = given @ b, None
        if ctx.needs_input_grad[0]:
            to_x = multiplied_back(given, ctx.weight).addmm_(to_inner, a).view(*gradient.shape[:-1], -1)
        return to_x, None, to_inner.T @ rows, given.T @ inner
