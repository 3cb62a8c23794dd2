"""Adapters for tests that store, carry or hide them: a real LoRA file, too small to change anything."""

import io
import tempfile
from pathlib import Path

import numpy as np

from tests.backends.tiny_models import write


def lora(name: str) -> bytes:
    """A GGUF LoRA of that name, of one matrix."""
    keys = {"general.type": "adapter", "general.name": name, "adapter.type": "lora", "adapter.lora.alpha": 1.0}
    shapes = {"a": (2, 16), "b": (16, 2)}
    tensors = {f"blk.0.attn_q.weight.lora_{half}": np.zeros(shape, np.float32) for half, shape in shapes.items()}
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder, "adapter.gguf"), "llama", keys, tensors).read_bytes()


def arrays(**given: np.ndarray) -> bytes:
    """What training continues from."""
    data = io.BytesIO()
    np.savez(data, **given)
    return data.getvalue()
