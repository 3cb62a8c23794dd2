"""GGUF models with random weights in architectures that keep more than keys and values: metadata and tensors of each.

Small enough to write in a test, with weights wide enough that every part of the state shows in the logits.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

from omnidraft.backends.base import LanguageModel

WIDTH, TOKENS = 64, 300
Model = tuple[str, dict, dict[str, np.ndarray]]


def weights(random: np.random.Generator, *shape: int, scale: float = 1.5) -> np.ndarray:
    """Normal, so that a product with a normed vector keeps its size (times `scale`)."""
    return (random.normal(0, scale / np.sqrt(shape[-1]), shape)).astype(np.float32)


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.float32)


def _vocabulary() -> dict:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [f"t{number}" for number in range(TOKENS - len(pieces))]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [0.0] * TOKENS,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (TOKENS - 259)],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
    }  # fmt: skip


def _model(architecture: str, settings: dict, blocks: list[dict], outer: dict) -> Model:
    keys = {"context_length": 512, "embedding_length": WIDTH, "block_count": len(blocks)}
    keys |= {"attention.layer_norm_rms_epsilon": 1e-5} | settings
    tensors = {f"blk.{number}.{name}": array for number, block in enumerate(blocks) for name, array in block.items()}
    metadata = {f"{architecture}.{key}": value for key, value in keys.items()} | _vocabulary()
    return architecture, metadata, tensors | outer


def _feed_forward(random: np.random.Generator) -> dict:
    return {
        "ffn_norm.weight": ones(WIDTH), "ffn_gate.weight": weights(random, 128, WIDTH),
        "ffn_up.weight": weights(random, 128, WIDTH), "ffn_down.weight": weights(random, WIDTH, 128),
    }  # fmt: skip


def _attention(random: np.random.Generator, heads: int = 4, kv: int = 2, head: int = 16, gated: bool = False) -> dict:
    return {
        "attn_q.weight": weights(random, heads * head * (2 if gated else 1), WIDTH),
        "attn_k.weight": weights(random, kv * head, WIDTH), "attn_v.weight": weights(random, kv * head, WIDTH),
        "attn_output.weight": weights(random, WIDTH, heads * head),
    }  # fmt: skip


def _embedding(random: np.random.Generator, norm: str = "output_norm.weight") -> dict:
    return {"token_embd.weight": weights(random, TOKENS, WIDTH), norm: ones(WIDTH)}


def mamba(seed: int = 0) -> Model:
    """Recurrent in every layer."""
    random = np.random.default_rng(seed)
    inner, state, rank = 128, 16, 4
    sizes = {"conv_kernel": 4, "inner_size": inner, "state_size": state, "time_step_rank": rank}
    settings = {f"ssm.{name}": size for name, size in sizes.items()}
    settings |= {"feed_forward_length": 0, "attention.head_count": 0}

    def block() -> dict:
        return {
            "attn_norm.weight": ones(WIDTH), "ssm_in.weight": weights(random, 2 * inner, WIDTH),
            "ssm_conv1d.weight": weights(random, inner, 4), "ssm_conv1d.bias": weights(random, inner),
            "ssm_x.weight": weights(random, rank + 2 * state, inner), "ssm_dt.weight": weights(random, inner, rank),
            "ssm_dt.bias": weights(random, inner), "ssm_a": -np.abs(weights(random, inner, state)),
            "ssm_d": weights(random, inner), "ssm_out.weight": weights(random, WIDTH, inner),
        }  # fmt: skip

    return _model("mamba", settings, [block(), block()], _embedding(random))


def lfm2(seed: int = 0) -> Model:
    """Hybrid: short convolutions, then attention."""
    random = np.random.default_rng(seed)
    settings = {
        "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": [0, 2],
        "shortconv.l_cache": 3, "rope.freq_base": 10000.0,
    }  # fmt: skip
    convolution = {
        "shortconv.conv.weight": weights(random, WIDTH, 3),
        "shortconv.in_proj.weight": weights(random, 3 * WIDTH, WIDTH),
        "shortconv.out_proj.weight": weights(random, WIDTH, WIDTH),
    }  # fmt: skip
    attention = _attention(random) | {"attn_q_norm.weight": ones(16), "attn_k_norm.weight": ones(16)}
    blocks = [{"attn_norm.weight": ones(WIDTH)} | part | _feed_forward(random) for part in (convolution, attention)]
    return _model("lfm2", settings, blocks, _embedding(random, "token_embd_norm.weight"))


def qwen35(seed: int = 0) -> Model:
    """Hybrid: gated delta networks, every second layer attention."""
    random = np.random.default_rng(seed)
    head, keys, values = 16, 2, 4
    settings = {
        "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2,
        "attention.key_length": 16, "attention.value_length": 16, "rope.freq_base": 10000.0,
        "rope.dimension_count": 16, "rope.dimension_sections": [4, 2, 2, 0], "full_attention_interval": 2,
        "ssm.conv_kernel": 4, "ssm.state_size": head, "ssm.group_count": keys, "ssm.time_step_rank": values,
        "ssm.inner_size": values * head,
    }  # fmt: skip
    mixed = 2 * keys * head + values * head
    delta = {
        "attn_qkv.weight": weights(random, mixed, WIDTH), "attn_gate.weight": weights(random, values * head, WIDTH),
        "ssm_conv1d.weight": weights(random, mixed, 4), "ssm_dt.bias": weights(random, values),
        "ssm_a": -np.abs(weights(random, values)), "ssm_beta.weight": weights(random, values, WIDTH),
        "ssm_alpha.weight": weights(random, values, WIDTH), "ssm_norm.weight": ones(head),
        "ssm_out.weight": weights(random, WIDTH, values * head),
    }  # fmt: skip
    attention = _attention(random, gated=True) | {"attn_q_norm.weight": ones(16), "attn_k_norm.weight": ones(16)}
    blocks = []
    for part in (delta, attention):
        feed = _feed_forward(random)
        feed["post_attention_norm.weight"] = feed.pop("ffn_norm.weight")
        blocks.append({"attn_norm.weight": ones(WIDTH)} | part | feed)
    return _model("qwen35", settings, blocks, _embedding(random))


def gemma3(seed: int = 0) -> Model:
    """Attention in six layers with a sliding window of 16 tokens, but for the last, which sees everything."""
    random = np.random.default_rng(seed)
    settings = {
        "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2,
        "attention.key_length": 16, "attention.value_length": 16, "attention.sliding_window": 16,
        "rope.freq_base": 1000000.0,
    }  # fmt: skip
    norms = {f"{name}.weight": ones(WIDTH) for name in ("attn_norm", "post_attention_norm", "post_ffw_norm")}
    norms |= {"attn_q_norm.weight": ones(16), "attn_k_norm.weight": ones(16)}
    blocks = [norms | _attention(random) | _feed_forward(random) for _ in range(6)]
    return _model("gemma3", settings, blocks, _embedding(random))


def qwen2vl(seed: int = 0) -> Model:
    """Attention with positions of three axes."""
    random = np.random.default_rng(seed)
    settings = {"feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2}
    settings |= {"rope.dimension_sections": [2, 3, 3, 0]}
    block = lambda: {"attn_norm.weight": ones(WIDTH), **_attention(random), **_feed_forward(random)}  # noqa: E731
    return _model("qwen2vl", settings, [block() for _ in range(3)], _embedding(random))


def llama(seed: int = 0) -> Model:
    """Attention and nothing else."""
    architecture, metadata, tensors = qwen2vl(seed)
    renamed = {key.replace(architecture, "llama"): value for key, value in metadata.items() if "sections" not in key}
    return "llama", renamed, tensors


MODELS: dict[str, Callable[[], Model]] = {
    "mamba": mamba, "lfm2": lfm2, "qwen35": qwen35, "gemma3": gemma3, "qwen2vl": qwen2vl,
    "llama": llama,
}  # fmt: skip


def write(path: Path, architecture: str, metadata: dict | None = None, tensors: dict | None = None) -> Path:
    """A GGUF file. Metadata values: str, int, float, bool, list of str or of numbers."""
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


def ids_of(model: LanguageModel, count: int) -> list[int]:
    """Ids of ordinary tokens to give to any model, the same ones every time."""
    return np.random.default_rng(count).choice(np.flatnonzero(model.vocabulary.ordinary), count).tolist()
