"""Decides whether a GGUF LoRA file fits a model, before llama.cpp sees it.

llama.cpp refuses some misfits and aborts the whole process on others (an adapter on `token_embd.weight` loads, then
fails an assertion), so only tensors known to work are let through. Values are not looked at.
"""

from __future__ import annotations

import re
from pathlib import Path

from omnidraft.backends.gguf.file import ModelInfo, read_info
from omnidraft.backends.gguf.header import FLOAT32, Tensor, read_header
from omnidraft.backends.llama.runtime import type_names
from omnidraft.errors import ModelError

_NAME = re.compile(
    r"(?P<weight>(?:blk\.\d+\.(?:attn_(?:q|k|v|output)|ffn_(?:gate|up|down))|output)\.weight)\.lora_(?P<half>[ab])"
)
_TYPES = ("F32", "F16", "BF16", "Q8_0")


def check_adapter(path: str | Path, model: ModelInfo) -> None:
    """ModelError naming the first reason why the LoRA at `path` cannot be used with `model`; else nothing."""
    if read_info(path).kind != "adapter":
        raise ModelError(f"{path} is not a LoRA adapter.")
    header = read_header(path)
    if header.metadata.get("adapter.type") != "lora":
        raise ModelError(f"{path} is an adapter of another kind than LoRA.")
    architecture = header.metadata.get("general.architecture")
    if architecture != model.architecture:
        raise ModelError(
            f"{path} is an adapter for '{str(architecture)[:100]}' models, but {model.name} is '{model.architecture}'."
        )
    alpha = header.metadata.get("adapter.lora.alpha", 0.0)
    kind = header.kinds.get("adapter.lora.alpha", FLOAT32)
    if kind != FLOAT32 or not isinstance(alpha, float) or not 0 <= alpha < 1e6:
        raise ModelError(f"{path} has the impossible LoRA alpha {str(alpha)[:100]}.")
    if not header.tensors:
        raise ModelError(f"{path} is an adapter without tensors.")
    pairs = _pairs(path, header.tensors)
    weights = {name: tensor for part in model.parts for name, tensor in read_header(part).tensors.items()}
    for weight, pair in pairs.items():
        _check_pair(path, weight, pair, weights, model)


def _pairs(path: str | Path, tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The tensors by the weight they change and their half, "a" or "b"."""
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise ModelError(f"{path} changes {name[:100]}, which is not among the weights an adapter may change.")
        pairs.setdefault(match["weight"], {})[match["half"]] = tensor
    return pairs


def _check_pair(
    path: str | Path, weight: str, pair: dict[str, Tensor], weights: dict[str, Tensor], model: ModelInfo
) -> None:
    if len(pair) != 2:
        raise ModelError(f"{path} has only one half of the LoRA for {weight[:100]}.")
    if weight not in weights:
        tied = " (it shares its output weights with the token embedding)" if weight == "output.weight" else ""
        raise ModelError(f"{path} changes {weight[:100]}, which {model.name} does not have{tied}.")
    for tensor in pair.values():
        if len(tensor.shape) != 2 or type_names().get(tensor.type) not in _TYPES:
            raise ModelError(f"{path} stores the LoRA for {weight} in a form that is not supported.")
    (inputs, rank), (rank_b, outputs) = pair["a"].shape, pair["b"].shape
    if (inputs, outputs) != weights[weight].shape or rank != rank_b:
        raise ModelError(
            f"{path} does not fit {model.name}: its LoRA for {weight} is {inputs}x{rank} by {rank_b}x{outputs}, "
            f"the weight is {'x'.join(map(str, weights[weight].shape))}."
        )
