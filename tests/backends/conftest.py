"""Small GGUF files written on the spot: models without sense, adapters, and damaged copies."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.gguf.header import read_header
from tests.backends.tiny_models import MODELS, write

LAYERS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """write(name, architecture, metadata, tensors) -> path. Metadata values: str, int, float, bool, list of str."""

    return lambda name, *content: write(tmp_path / name, *content)


@pytest.fixture
def write_adapter(write_gguf: Callable[..., Path]) -> Callable[..., Path]:
    """write(name, model, rank, seed, only, metadata, change) -> path of a random LoRA with the model's shapes.

    `only`: the weights it covers; `change`: called with the tensors before they are written.
    """

    def write(
        name: str,
        model: Path,
        rank: int = 8,
        seed: int = 0,
        only: tuple[str, ...] | None = None,
        metadata: dict | None = None,
        change: Callable[[dict], None] | None = None,
    ) -> Path:
        random = np.random.default_rng(seed)
        tensors = {}
        for weight, tensor in read_header(model).tensors.items():
            if only is None and weight.split(".")[-2] not in LAYERS:
                continue
            if only is not None and weight not in only:
                continue
            inputs, outputs = tensor.shape
            tensors[f"{weight}.lora_a"] = random.normal(0, 0.1, (rank, inputs)).astype(np.float32)
            tensors[f"{weight}.lora_b"] = random.normal(0, 0.1, (outputs, rank)).astype(np.float32)
        if change:
            change(tensors)
        keys = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": float(rank)}
        return write_gguf(name, "llama", keys | (metadata or {}), tensors)

    return write


@pytest.fixture
def tiny_model(write_gguf: Callable[..., Path]) -> Callable[[str], Path]:
    """tiny_model("mamba") -> path of a model with random weights in one of the architectures of tiny_models.py."""
    return lambda name: write_gguf(f"tiny-{name}.gguf", *MODELS[name]())
