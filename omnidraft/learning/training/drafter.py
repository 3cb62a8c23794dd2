"""The drafter as torch sees it: the same GGUF, its weights frozen, a LoRA on every linear layer.

Also an adapter's weights on their way between files and a drafter: arrays only, nothing is pickled. It knows nothing of
losses and replay.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear
from torch import Tensor, nn

from omnidraft.backends.gguf.header import GgufHeader, read_header
from omnidraft.errors import ModelError
from omnidraft.learning.training.frozen import FrozenLinear, load_frozen, multiplied, multiplied_back, product
from omnidraft.learning.training.teaching import Batch
from omnidraft.storage.files import read_arrays

# A frozen layer and its LoRA as one product: what PEFT adds up from three tensors of the layer's size is computed into
# one, and the way back needs none besides the gradient itself.


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
    """With W (out, in) in half precision or bfloat16, A (rank, in), B (out, rank); gradients go to x, A and B."""

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


# The drafter's output layer, for the pieces that matter: what a loss names, what the drafter likes, and a sample. log
# q of a piece is its logit less log Z, Z summing exp over the whole vocabulary. In training Z is summed over the
# pieces that the batch names, the COMMON ones the drafter gives most to, and DRAWN others, drawn by what the drafter
# gives them and weighted with the inverse of that (importance sampling, Bengio and Senecal 2003). The sum is unbiased;
# its logarithm is too low by half its relative variance, see docs/measurements.md. Estimates sum over all pieces. It
# knows nothing of losses.


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


PLAIN_LAYERS = {"llama", "mistral", "qwen2", "qwen3"}  # built of `self_attn` and `mlp` alone
# Those llama.cpp may adapt.
LAYERS = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"}


class Rows:
    """Which positions are read of what the last layer gives: all, or some for a while."""

    at: tuple[Tensor, Tensor] | None = None


class OnRows(nn.Module):
    """A part of the last layer, computed where it is read; elsewhere it gives zeros."""

    def __init__(self, part: nn.Module, rows: Rows) -> None:
        super().__init__()
        self.part, self._rows = part, rows

    def forward(self, x: Tensor) -> Tensor:
        if self._rows.at is None:
            return self.part(x)
        found = self.part(x[self._rows.at])
        return found.new_zeros(*x.shape[:-1], found.shape[-1]).index_put(self._rows.at, found)


class TorchDrafter:
    """A drafter with an adapter, which is trained.

    adapted: {GGUF layer name ("blk.0.attn_q", "output"): its PEFT module}; rank: LoRA rank; alpha equals the rank, so
    the adapter's scale is 1; first_id: the piece that texts begin with; output: its output layer.
    """

    def __init__(self, path: Path, rank: int = 32, seed: int = 0) -> None:
        self.path, self.rank = Path(path), rank
        header = read_header(path)
        self.architecture = header.metadata["general.architecture"]
        base = load_frozen(header)
        self.first_id = _first_id(header)
        names = _adaptable(base, header, self.architecture)
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=sorted(names), lora_dropout=0.0, bias="none")
        config._register_custom_module({FrozenLinear: AdaptedLinear})
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # PEFT asks under a name of yesterday
            self.model = get_peft_model(base, config)
        self.base = base
        modules = dict(base.named_modules())
        self.adapted: dict[str, nn.Module] = {gguf_name: modules[name] for name, gguf_name in names.items()}
        self.output = OutputLayer(base.get_output_embeddings())
        self._rows = Rows()
        if self.architecture in PLAIN_LAYERS:
            _compute_only(self._rows, base.get_decoder().layers[-1])
        self.renew(seed)

    def renew(self, seed: int) -> None:
        """As it was when it was made with this `seed`, torch's random numbers included."""
        torch.manual_seed(seed)
        self.model.zero_grad(set_to_none=True)
        self.reset()

    def parameters(self) -> list[Tensor]:
        """What is trained."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def hidden(self, ids: Tensor) -> Tensor:
        """Last hidden states, (B, L, width)."""
        return self.base.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state

    def rows(self, batch: Batch) -> Tensor:
        """Last hidden states where the batch's N predictions are made, (N, width)."""
        self._rows.at = batch.row, batch.column
        try:
            return self.hidden(batch.ids)[batch.row, batch.column]
        finally:
            self._rows.at = None

    def weights(self) -> dict[str, np.ndarray]:
        """The adapter: {"blk.0.attn_q.lora_a": (rank, in), "....lora_b": (out, rank)}, torch's row order, float32."""
        found = {}
        for name, module in self.adapted.items():
            found[f"{name}.lora_a"] = module.lora_A["default"].weight.detach().numpy().copy()
            found[f"{name}.lora_b"] = module.lora_B["default"].weight.detach().numpy().copy()
        return found

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Take over an adapter's weights; ModelError if it does not belong to this drafter and rank."""
        own = {f"{name}.lora_{x}" for name in self.adapted for x in "ab"}
        if set(weights) != own:
            raise ModelError(f"the adapter was made for other layers than {self.path.name} has")
        with torch.no_grad():
            for name, module in self.adapted.items():
                for part, key in ((module.lora_A, "a"), (module.lora_B, "b")):
                    source, into = torch.as_tensor(weights[f"{name}.lora_{key}"]), part["default"].weight
                    if source.shape != into.shape:
                        shapes = f"shape {tuple(source.shape)}, not {tuple(into.shape)}"
                        raise ModelError(f"the adapter's {name} has {shapes}")
                    into.copy_(source)

    def reset(self) -> None:
        """An adapter that changes nothing: B = 0, A drawn anew."""
        for module in self.adapted.values():
            module.reset_lora_parameters("default", init_lora_weights=True)


def _compute_only(rows: Rows, layer: nn.Module) -> None:
    """Of the last layer only keys and values are read at all positions."""
    attention: Any = layer.self_attn
    for owner, name in ((attention, "q_proj"), (attention, "o_proj"), (layer, "mlp")):
        setattr(owner, name, OnRows(getattr(owner, name), rows))


def _first_id(header: GgufHeader) -> int:
    """Where there is no begin token, models were trained with the end token between texts."""
    for name in ("bos", "eos"):
        if (number := header.metadata.get(f"tokenizer.ggml.{name}_token_id")) is not None:
            return int(number)
    return 0


def _adaptable(base: nn.Module, header: GgufHeader, architecture: str) -> dict[str, str]:
    """{module name: GGUF name} of every linear layer the GGUF stores under a name of its own."""
    by_name = {name: key for key, name in MODEL_ARCH_NAMES.items()}
    mapping = get_tensor_name_map(by_name.get(architecture, MODEL_ARCH.LLAMA), base.config.num_hidden_layers)
    stored = {name.removesuffix(".weight") for name in header.tensors}
    found = {}
    for name, module in base.named_modules():
        gguf_name = mapping.get_name(name) if isinstance(module, nn.Linear) else None
        if gguf_name is None or gguf_name not in stored:
            continue  # a tied output layer has no weight of its own
        if gguf_name.rpartition(".")[2] in LAYERS:
            found[name] = gguf_name
    if not found:
        raise ModelError(f"no layer of a {architecture} model can be adapted")
    return found


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The weights of a version; StorageError if the file is damaged."""
    return {name: matrix.astype(np.float32) for name, matrix in read_arrays(path).items()}


def rank_of(weights: Mapping[str, np.ndarray]) -> int:
    """The LoRA rank; 0 if there are none."""
    return next((len(matrix) for name, matrix in weights.items() if name.endswith(".lora_a")), 0)


def give(drafter: TorchDrafter, weights: Mapping[str, np.ndarray]) -> bool:
    """Whether the weights are of the drafter's rank; if so it has them now. ModelError if they are of other layers."""
    if rank_of(weights) != drafter.rank:
        return False
    drafter.load_weights(weights)
    return True
