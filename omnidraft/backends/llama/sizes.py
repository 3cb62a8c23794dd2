"""What can be told about a model's memory from its file's header: cache, recurrent state, a prompt step's share.

Knows GGUF's keys for them. estimate.py asks llama.cpp itself where that is not enough.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

import psutil

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.gguf.header import read_header
from omnidraft.backends.llama.runtime import type_layout

KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
_OTHER_STATES = (".ssm.", ".wkv.", ".kv_lora_rank", ".full_attention_interval", ".shortconv.")
_SCORES_BUDGET = 128 << 20
_ENDLESS = 1 << 62  # elements: a header may name any number


def tensor_bytes(info: ModelInfo) -> dict[str, int]:
    """Bytes of every tensor, by name, over all files."""
    tensors = {name: tensor for part in info.parts for name, tensor in read_header(part).tensors.items()}
    layouts = {name: type_layout(tensor.type) or (1, 4) for name, tensor in tensors.items()}
    return {name: tensor.elements // layouts[name][0] * layouts[name][1] for name, tensor in tensors.items()}


def layer_bytes(info: ModelInfo) -> tuple[list[int], dict[str, int]]:
    """(bytes of the weights of each layer, those of every other tensor by name)."""
    layers, others = [0] * info.layers, {}
    for name, count in tensor_bytes(info).items():
        kind, _, rest = name.partition(".")
        number = rest.partition(".")[0]
        if kind == "blk" and number.isdecimal() and int(number) < info.layers:
            layers[int(number)] += count
        else:
            others[name] = count
    return layers, others


def pass_bytes(info: ModelInfo) -> int:
    """Bytes of the weights that a pass of a token reads: of the embedding one row, unless it is the output as well,
    and of experts those that are asked."""
    sizes = tensor_bytes(info)
    resting = sum(count for name, count in sizes.items() if "_exps." in name) * (1 - _asked(info))
    return sum(sizes.values()) - int(resting) - (0 if info.tied else sizes.get("token_embd.weight", 0))


def _asked(info: ModelInfo) -> float:
    """The share of its experts that a token goes to."""
    metadata = read_header(info.path).metadata
    some, of = (metadata.get(f"{info.architecture}.{key}") for key in ("expert_used_count", "expert_count"))
    return some / of if isinstance(some, int) and isinstance(of, int) and 0 < some < of else 1.0


def kv_cache_bytes(info: ModelInfo, n_ctx: int, kv_type: str) -> int | None:
    """Bytes of the KV cache for `n_ctx` tokens; None for models that are not attention in every layer alike."""
    metadata = read_header(info.path).metadata
    if any(part in key for key in metadata for part in _OTHER_STATES) or not (info.heads and info.layers):
        return None
    prefix = f"{info.architecture}.attention."
    head = info.width // info.heads
    values = metadata.get(prefix + "key_length", head) + metadata.get(prefix + "value_length", head)
    per_layer = metadata.get(prefix + "head_count_kv", info.kv_heads)
    heads = sum(per_layer) if isinstance(per_layer, list) else per_layer * info.layers
    return int(min(n_ctx * heads * values, _ENDLESS) * KV_BYTES[kv_type])


def state_bytes(info: ModelInfo) -> int:
    """Bytes that the recurrent layers of a model carry from token to token, in float32; 0 if it has none."""
    metadata = read_header(info.path).metadata

    def size(key: str) -> int:
        value = metadata.get(f"{info.architecture}.{key}", 0)
        return value if isinstance(value, int) else 0

    inner, state = size("ssm.inner_size"), size("ssm.state_size")
    mixed = inner + 2 * max(size("ssm.group_count"), 0) * state
    each = inner * state + max(size("ssm.conv_kernel") - 1, 0) * mixed
    each += max(size("shortconv.l_cache") - 1, 0) * info.width
    each += (size("wkv.head_size") + 2) * info.width if size("wkv.head_size") else 0
    each += size("kda.head_dim") ** 2 * info.heads
    return 4 * each * _recurrent_layers(info, metadata)


def _recurrent_layers(info: ModelInfo, metadata: dict) -> int:
    """Layers without attention where the file tells, else all."""
    per_layer = metadata.get(f"{info.architecture}.attention.head_count_kv")
    if isinstance(per_layer, list) and 0 in per_layer:
        return sum(heads == 0 for heads in per_layer)
    interval = metadata.get(f"{info.architecture}.full_attention_interval", 0)
    return info.layers - info.layers // interval if isinstance(interval, int) and interval > 0 else info.layers


def prompt_step(info: ModelInfo, n_ctx: int, most: int) -> int:
    """Prompt tokens computed at once without flash attention, at most `most`; 0 if fewer than 64 fit the budget.

    The attention scores of a step are step x n_ctx x heads floats: 2 GB for 512 tokens at 32,000 of context.
    """
    fit = _SCORES_BUDGET // (4 * n_ctx * max(info.heads, 1))
    return 0 if fit < 64 else min(most, fit)


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        return psutil.virtual_memory().available
    except (OSError, NotImplementedError, RuntimeError):
        return None


def give_back() -> None:
    """Return freed memory to the system, which glibc keeps for itself in pieces; elsewhere nothing happens."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
