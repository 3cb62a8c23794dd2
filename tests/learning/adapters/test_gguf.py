"""torch + PEFT and llama.cpp + exported adapter are the same model."""

import numpy as np
import pytest
import torch

from omnidraft.errors import ModelError
from omnidraft.learning.adapters.files import write_adapter
from omnidraft.learning.training.drafter import TorchDrafter

RANK = 32


@pytest.fixture(scope="module")
def drafter_path(models):
    return models / "tiny-drafter-f16.gguf"


@pytest.fixture(scope="module")
def drafter(drafter_path):
    """A drafter whose adapter matters: B random, as large as training makes it."""
    drafter = TorchDrafter(drafter_path, RANK)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in drafter.adapted.values():
            b = module.lora_B["default"].weight
            b.copy_(torch.randn(b.shape, generator=generator) * 0.03)
    return drafter


def as_arrays(drafter):
    return {name: value.numpy() for name, value in drafter.weights().items()}


def test_every_linear_layer_is_adapted(drafter):
    inner = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    assert sorted(drafter.adapted) == sorted([f"blk.{n}.{name}" for n in range(2) for name in inner] + ["output"])


def test_a_tied_output_layer_is_left_alone(models):
    assert "output" not in TorchDrafter(models / "tiny-target-a2-f16.gguf", 4).adapted


def test_weights_of_another_rank_or_model_are_refused(drafter, models):
    other = TorchDrafter(models / "tiny-drafter-f16.gguf", 8)
    with pytest.raises(ModelError, match="shape"):
        other.load_weights(drafter.weights())
    with pytest.raises(ModelError, match="other layers"):
        TorchDrafter(models / "tiny-target-a2-f16.gguf", RANK).load_weights(drafter.weights())


def test_infinite_weights_are_never_written(drafter, drafter_path, tmp_path):
    weights = as_arrays(drafter)
    weights["blk.0.attn_q.lora_a"] = np.full_like(weights["blk.0.attn_q.lora_a"], np.nan)
    with pytest.raises(ModelError, match="infinite"):
        write_adapter(tmp_path / "adapter.gguf", weights, drafter_path, RANK)
