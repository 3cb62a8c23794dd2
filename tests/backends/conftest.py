"""Small GGUF files written on the spot: models without sense, adapters, and damaged copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from omnidraft.backends.gguf_header import read_header

LAYERS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


@pytest.fixture
def write_gguf(tmp_path: Path) -> Callable[..., Path]:
    """write(name, architecture, metadata, tensors) -> path. Metadata values: str, int, float, bool, list of str."""

    def write(name: str, architecture: str, metadata: dict | None = None, tensors: dict | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(path, architecture)
        for key, value in (metadata or {}).items():
            _add(writer, key, value)
        for tensor, array in (tensors or {}).items():
            writer.add_tensor(tensor, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_string(key, str(value))


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
def recurrent_model(write_gguf: Callable[..., Path]) -> Path:
    """A Mamba model with random weights: it carries a state from token to token and has no KV cache."""
    width, inner, state, rank, tokens = 64, 128, 16, 4, 300
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(0, 0.1, shape).astype(np.float32)

    sizes = {"conv_kernel": 4, "inner_size": inner, "state_size": state, "time_step_rank": rank}
    keys: dict = {f"mamba.ssm.{name}": size for name, size in sizes.items()}
    keys |= {"mamba.context_length": 512, "mamba.embedding_length": width, "mamba.feed_forward_length": 0}
    keys |= {"mamba.block_count": 1, "mamba.attention.head_count": 0, "mamba.attention.layer_norm_rms_epsilon": 1e-5}
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [f"t{number}" for number in range(tokens - len(pieces))]
    keys |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * tokens}
    keys["tokenizer.ggml.token_type"] = [2, 3, 3, *[6] * 256, *[1] * (tokens - 259)]
    keys |= {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}
    block = {
        "attn_norm.weight": np.ones(width, np.float32),
        "ssm_in.weight": weights(2 * inner, width),
        "ssm_conv1d.weight": weights(inner, 4),
        "ssm_conv1d.bias": weights(inner),
        "ssm_x.weight": weights(rank + 2 * state, inner),
        "ssm_dt.weight": weights(inner, rank),
        "ssm_dt.bias": weights(inner),
        "ssm_a": -np.abs(weights(inner, state)),
        "ssm_d": weights(inner),
        "ssm_out.weight": weights(width, inner),
    }
    tensors = {f"blk.0.{name}": array for name, array in block.items()}
    tensors |= {"token_embd.weight": weights(tokens, width), "output_norm.weight": np.ones(width, np.float32)}
    return write_gguf("recurrent.gguf", "mamba", keys, tensors)
