"""Adapters for tests that store, carry or hide them: a real LoRA file, too small to change anything."""

import io
import tempfile
from pathlib import Path

import numpy as np
from gguf import GGUFWriter


def lora(name: str) -> bytes:
    """A GGUF LoRA of that name, of one matrix."""
    with tempfile.TemporaryDirectory() as folder:
        writer = GGUFWriter(str(Path(folder, "adapter.gguf")), "llama")
        writer.add_type("adapter")
        writer.add_name(name)
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", 1.0)
        for half, shape in (("a", (2, 16)), ("b", (16, 2))):
            writer.add_tensor(f"blk.0.attn_q.weight.lora_{half}", np.zeros(shape, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return Path(folder, "adapter.gguf").read_bytes()


def arrays(**given: np.ndarray) -> bytes:
    """What training continues from."""
    data = io.BytesIO()
    np.savez(data, **given)
    return data.getvalue()
