"""A drafter's own weights for training: read from its GGUF one tensor at a time and never held twice.

Matrices are kept in half precision (exact for F16 files, 1/2048 of a weight for others) and multiplied in float32, made
whole some rows at a time while they are used; rows of the embedding are read from the file. Where the processor
multiplies bfloat16, the layers are kept and multiplied in that, twice as fast; a logit moves by a third of what it
moves when llama.cpp drafts with Q8_0 (.025 and .069 on average). The output layer, which decides what is likeliest, is
not. It knows nothing of adapters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from accelerate import init_empty_weights
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig
from transformers.integrations import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, get_gguf_hf_weights_map

from omnidraft.backends.gguf.header import GgufHeader, MappedTensor, let_go, map_tensors
from omnidraft.errors import ModelError

_ROWS = 4096  # dequantized at once
# Weights made whole at once, always in the same place: it stays in the processor's cache and need not be asked of the
# system again. Eight rows by 28 million weights: 14 ms instead of 83.
_WHOLE = 3 << 16
# Products in bfloat16 are compiled for each number of rows, which takes as long as some of them: a few numbers do.
_ALIKE = 32
LAYERS = torch.bfloat16 if torch.cpu.get_capabilities().get("avx512_bf16") else torch.float16
_REORDERED = ("attn_q", "attn_k", "attn_v", "conv")  # tensors whose rows a processor may move; the others come in parts


class FrozenLinear(nn.Linear):
    """A linear layer in half precision that computes in float32 and passes gradients on to its input alone."""

    def forward(self, input: Tensor) -> Tensor:
        found = product(input, self.weight)
        return found if self.bias is None else found + self.bias


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T with W in half precision or bfloat16, (..., in) -> (..., out); gradients go to x alone."""
    return _Product.apply(x, weight)


class _Product(torch.autograd.Function):
    """x W^T, which keeps neither x nor a float32 copy of W for the way back."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.weight = weight
        return multiplied(x.flatten(0, -2), weight).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return multiplied_back(gradient.flatten(0, -2), ctx.weight).view(*gradient.shape[:-1], -1), None


def multiplied(rows: Tensor, weight: Tensor) -> Tensor:
    """x W^T, (N, in) -> (N, out), without a gradient."""
    if weight.dtype == torch.bfloat16:
        return (_filled_up(rows) @ weight.T)[: len(rows)].float()
    found = rows.new_empty(len(rows), len(weight))
    for part, whole in _parts(rows, weight):
        torch.mm(rows, whole.T, out=found[:, part])
    return found


def multiplied_back(gradient: Tensor, weight: Tensor) -> Tensor:
    """g W, (N, out) -> (N, in): the gradient of x."""
    if weight.dtype == torch.bfloat16:
        return (_filled_up(gradient) @ weight)[: len(gradient)].float()
    found = gradient.new_empty(len(gradient), weight.shape[1])
    for part, whole in _parts(gradient, weight):
        found.addmm_(gradient[:, part], whole, beta=float(part.start > 0))
    return found


def _filled_up(rows: Tensor) -> Tensor:
    """In bfloat16, with rows of zeros up to a multiple of _ALIKE."""
    found = rows.new_zeros(-(-len(rows) // _ALIKE) * _ALIKE, rows.shape[1], dtype=torch.bfloat16)
    found[: len(rows)] = rows
    return found


def _parts(rows: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of a matrix, one part after another, in float32; a part holds until the next one."""
    size = min(max(_WHOLE // weight.shape[1], 1), len(weight))
    place = rows.new_empty(size, weight.shape[1])
    for start in range(0, len(weight), size):
        part = slice(start, min(start + size, len(weight)))
        yield part, place[: part.stop - start].copy_(weight[part])


class FileEmbedding(nn.Module):
    """Rows of a GGUF's embedding, dequantized when they are asked for."""

    def __init__(self, tensor: MappedTensor) -> None:
        super().__init__()
        self._tensor = tensor

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., width) float32."""
        found, inverse = ids.unique(return_inverse=True)
        return torch.from_numpy(self._tensor.rows(found.numpy()))[inverse]


def load_frozen(header: GgufHeader) -> nn.Module:
    """The model in a GGUF; ModelError if torch does not know it."""
    name = header.path.name
    try:
        tensors = map_tensors(header.path)
        with init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(_config(header, tied="output.weight" not in tensors))
        _fill(model, header.metadata["general.architecture"], tensors)
        let_go(tensors)
    except (OSError, ValueError, KeyError, NotImplementedError, AttributeError) as error:
        raise ModelError(f"torch cannot train {name}: {error}") from error
    if lacking := [parameter for parameter, value in model.named_parameters() if value.is_meta]:
        raise ModelError(f"torch cannot train {name}: it has no {lacking[0]}")
    return model.eval()  # no dropout; LoRA trains the same in evaluation mode


def _config(header: GgufHeader, tied: bool) -> PreTrainedConfig:
    """What transformers would make of the file, without reading its vocabulary."""
    architecture = header.metadata["general.architecture"]
    values = {
        ours: header.metadata[f"{architecture}.{name}"]
        for name, ours in GGUF_CONFIG_MAPPING[architecture].items()
        if ours is not None and f"{architecture}.{name}" in header.metadata
    }
    values.setdefault("vocab_size", header.tensors["token_embd.weight"].shape[1])
    kind = {"gemma3": "gemma3_text", "gemma4": "gemma4_text"}.get(architecture, architecture)
    return AutoConfig.for_model(kind, **values, tie_word_embeddings=tied)


def _fill(model: nn.Module, architecture: str, tensors: dict[str, MappedTensor]) -> None:
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=model.config.to_dict())
    names, embedding = get_gguf_hf_weights_map(model, processor), "token_embd.weight"
    if "output.weight" not in tensors:  # tied
        _put(model.get_output_embeddings(), "weight", _rounded(tensors[embedding], torch.float16))
    if type(model.get_input_embeddings()) is nn.Embedding:  # others scale their rows
        model.set_input_embeddings(FileEmbedding(tensors[embedding]))
        names.pop(embedding, None)
    for name, tensor in tensors.items():
        if name in names:
            owner, _, last = names[name].rpartition(".")
            kept = LAYERS if name.startswith("blk.") else torch.float16
            _put(model.get_submodule(owner), last, _weights(name, tensor, processor, kept))
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = FrozenLinear


def _put(module: nn.Module, name: str, value: Tensor) -> None:
    expected = getattr(module, name).shape
    if value.shape != expected:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, not {tuple(expected)}")
    setattr(module, name, nn.Parameter(value, requires_grad=False))


def _weights(name: str, tensor: MappedTensor, processor: TensorProcessor, dtype: torch.dtype) -> Tensor:
    if len(tensor.shape) == 2 and not any(part in name for part in _REORDERED):
        return _rounded(tensor, dtype)
    whole = processor.process(
        weights=tensor.rows(), name=name, parsed_parameters={"tensors": {}}, tensor_key_mapping={}
    ).weights
    found = torch.from_numpy(np.array(whole))
    return found.to(dtype) if found.dim() == 2 else found


def _rounded(tensor: MappedTensor, dtype: torch.dtype) -> Tensor:
    """All its rows."""
    found = torch.empty(tensor.shape, dtype=dtype)
    for start in range(0, len(found), _ROWS):
        part = slice(start, start + _ROWS)
        found[part] = torch.from_numpy(tensor.rows(part))
    return found
