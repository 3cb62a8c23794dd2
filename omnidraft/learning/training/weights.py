"""An adapter's weights on their way between files and a drafter in training: arrays only, nothing is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from omnidraft.errors import StorageError
from omnidraft.learning.training.drafter import TorchDrafter

Weights = Mapping[str, np.ndarray | torch.Tensor]


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a version; StorageError if the file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as data:
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
