"""The drafter as torch sees it: the same GGUF, its weights frozen, a LoRA on every linear layer.

Also an adapter's weights on their way between files and a drafter: arrays only, nothing is pickled. It knows nothing of
losses and replay.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from omnidraft.backends.gguf.header import GgufHeader, read_header
from omnidraft.errors import ModelError, StorageError
from omnidraft.learning.training.adapted import AdaptedLinear
from omnidraft.learning.training.batches import Batch
from omnidraft.learning.training.frozen import FrozenLinear, load_frozen
from omnidraft.learning.training.output_layer import OutputLayer
from omnidraft.storage.files import read

Weights = Mapping[str, np.ndarray | torch.Tensor]
PLAIN_LAYERS = {"llama", "mistral", "qwen2", "qwen3"}  # built of `self_attn` and `mlp` alone
# Those llama.cpp may adapt.
LAYERS = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output"}


class Rows:
    """Which positions are read of what the last layer gives: all, or some for a while."""

    def __init__(self) -> None:
        self.at: tuple[Tensor, Tensor] | None = None

    @contextmanager
    def only(self, row: Tensor, column: Tensor) -> Iterator[None]:
        self.at = row, column
        try:
            yield
        finally:
            self.at = None


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
        with self._rows.only(batch.row, batch.column):
            return self.hidden(batch.ids)[batch.row, batch.column]

    def weights(self) -> dict[str, Tensor]:
        """The adapter: {"blk.0.attn_q.lora_a": (rank, in), "....lora_b": (out, rank)}, torch's row order, float32."""
        found = {}
        for name, module in self.adapted.items():
            found[f"{name}.lora_a"] = module.lora_A["default"].weight.detach().clone()
            found[f"{name}.lora_b"] = module.lora_B["default"].weight.detach().clone()
        return found

    def digest(self) -> str:
        """Names what the adapter does: the same for all that do nothing."""
        found, weights = hashlib.sha256(), self.weights()
        for layer in self.adapted:
            if weights[f"{layer}.lora_b"].any():
                found.update(weights[f"{layer}.lora_a"].numpy())
                found.update(weights[f"{layer}.lora_b"].numpy())
        return found.hexdigest()

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over an adapter's weights; ModelError if it does not belong to this drafter and rank."""
        own = {f"{name}.lora_{x}" for name in self.adapted for x in "ab"}
        if set(weights) != own:
            raise ModelError(f"the adapter was made for other layers than {self.path.name} has")
        with torch.no_grad():
            for name, module in self.adapted.items():
                for part, key in ((module.lora_A, "a"), (module.lora_B, "b")):
                    source, into = weights[f"{name}.lora_{key}"], part["default"].weight
                    if source.shape != into.shape:
                        raise ModelError(
                            f"the adapter's {name} has shape {tuple(source.shape)}, not {tuple(into.shape)}"
                        )
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


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a version; StorageError if the file is damaged."""
    try:
        with np.load(io.BytesIO(read(path)), allow_pickle=False) as data:
            return {name: torch.from_numpy(data[name].astype(np.float32)) for name in data.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, RuntimeError) as error:
        raise StorageError(f"the adapter weights {path} cannot be read: {error}") from error


def rank_of(weights: Weights) -> int:
    """The LoRA rank; 0 if there are none."""
    return next((len(matrix) for name, matrix in weights.items() if name.endswith(".lora_a")), 0)


def arrays_of(drafter: TorchDrafter) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in drafter.weights().items()}


def give(drafter: TorchDrafter, weights: Weights) -> bool:
    """Whether the weights are of the drafter's rank; if so it has them now. ModelError if they are of other layers."""
    if rank_of(weights) != drafter.rank:
        return False
    drafter.load_weights({name: torch.as_tensor(value) for name, value in weights.items()})
    return True
