"""Linear layers for passes of a few rows, `pack_linears`, and for a quarter of the memory, `quantize_linears`.

torch multiplies a single row by one kernel and a few rows by another, which takes two to three times as long in
float32. oneDNN's kernel for reordered weights is faster than both, and four rows cost it no more than one, so that
verifying a draft costs about as much as one token. Imports torch; import it late.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

_ROWS = 4  # one to three rows take longer than four do
_SMALL = 1 << 20  # bytes of weights that stay in the processor's own memory, where plain layers do as well


class PackedLinear(nn.Module):
    """x (..., n, inputs) -> (..., n, outputs), as the `nn.Linear` it is made of computes it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        plain = linear.weight.detach().contiguous()
        self.register_buffer("weight", torch.ops.mkldnn._reorder_linear_weight(plain, _ROWS), persistent=False)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[-2]
        if rows < _ROWS:
            x = F.pad(x, (0, 0, 0, _ROWS - rows))
        out = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out[..., :rows, :]


class Int8Linear(nn.Module):
    """Weights as whole numbers from -127 to 127 times a scale per output; what they are multiplied with stays as it is.

    So every row's result depends on that row alone, as verification needs it.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        exact = linear.weight.detach().float()
        scale = (exact.abs().amax(1) / 127).clamp(min=1e-12)
        self.register_buffer("weight", (exact / scale[:, None]).round().to(torch.int8), persistent=False)
        self.register_buffer("scale", scale.to(linear.weight.dtype), persistent=False)
        self.bias = linear.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu" and x.dtype == torch.bfloat16:
            out = torch._weight_int8pack_mm(x.flatten(0, -2), self.weight, self.scale).unflatten(0, x.shape[:-1])
        else:
            out = F.linear(x, self.weight.to(x.dtype)) * self.scale
        return out if self.bias is None else out + self.bias


def pack_linears(model: nn.Module) -> bool:
    """Reorder the weights of all larger `nn.Linear`s of a model on the processor; False if this build of torch cannot.

    A tied output layer gets a copy of its own, for the embedding needs the weights in their plain order.
    """
    first = next((module for module in model.modules() if type(module) is nn.Linear), None)
    if first is None or not _packable(first):
        return False
    _replace(model, PackedLinear, lambda linear: linear.weight.nbytes >= _SMALL)
    return True


def quantize_linears(model: nn.Module) -> None:
    """Turn every `nn.Linear` but the output layer, whose errors would reach the logits directly, into int8."""
    output = model.get_output_embeddings()
    _replace(model, Int8Linear, lambda linear: linear is not output)


def _replace(model: nn.Module, make: Callable[[nn.Linear], nn.Module], wanted: Callable[[nn.Linear], bool]) -> None:
    """Put `make(linear)` in the place of each wanted layer, giving up the old weights one layer at a time."""
    made: dict[nn.Linear, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child not in made and type(child) is nn.Linear and wanted(child):
                made[child] = make(child)
                child.weight = None
            if child in made:  # perhaps held in a second place
                setattr(parent, name, made[child])


def _packable(linear: nn.Linear) -> bool:
    """Whether this build of torch and this processor have the kernel for the layer's number format."""
    has = {
        torch.float32: lambda: True,
        torch.bfloat16: lambda: torch.ops.mkldnn._is_mkldnn_bf16_supported(),
        torch.float16: lambda: torch.ops.mkldnn._is_mkldnn_fp16_supported(),
    }.get(linear.weight.dtype, lambda: False)
    try:
        if not (torch.backends.mkldnn.is_available() and linear.weight.device.type == "cpu" and has()):
            return False
        with torch.no_grad():
            x = linear.weight[:1].unsqueeze(0)
            expected, packed = linear(x), PackedLinear(linear)(x)
            return bool((packed - expected).abs().max() <= 0.05 * expected.abs().max())
    except (RuntimeError, AttributeError):  # NotImplementedError is a RuntimeError
        return False
