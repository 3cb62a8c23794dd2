"""What a GGUF header says that makes llama.cpp end the whole process, told in a sentence before it is asked.

Settings that it asserts on while loading or in the middle of a pass, and vocabularies it cannot number or spell with.
What is not listed here is found by opening the file in a child first (trial.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omnidraft.backends.gguf.header import GgufHeader, read_header, read_strings
from omnidraft.errors import ModelError

_MOST_LAYERS = 512  # llama.cpp's own limit
_LEAST_CONTEXT = 8
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
# Attention in every layer, so that a layer without it is a mistake.
_PLAIN = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "mistral3", "olmo2", "starcoder2")


def check_settings(header: GgufHeader, architecture: str) -> None:
    """ModelError for settings that llama.cpp asserts on."""
    for key, value in header.metadata.items():
        if key.endswith("epsilon") and not (isinstance(value, float) and 0 <= value < 1):
            raise _damaged(header, key, value)
    for key, value in _impossible(header.metadata, architecture):
        raise _damaged(header, key, value)


def _impossible(metadata: dict[str, Any], architecture: str) -> Iterator[tuple[str, Any]]:
    def get(name: str, default: Any = None) -> tuple[str, Any]:
        return f"{architecture}.{name}", metadata.get(f"{architecture}.{name}", default)

    key, layers = get("block_count", 1)
    if not _within(layers, 1, _MOST_LAYERS):
        yield key, layers
    key, context = get("context_length", _LEAST_CONTEXT)
    if not _within(context, _LEAST_CONTEXT, 1 << 31):
        yield key, context
    _, experts = get("expert_count", 0)
    key, used = get("expert_used_count", 0)
    if not _within(experts, 0, 1 << 16) or not _within(used, 1 if experts else 0, experts):
        yield key, used
    key, scaling = get("rope.scaling.type", "none")
    if scaling not in _ROPE_SCALINGS:
        yield key, scaling
    yield from _heads(get("attention.head_count", 0)[1], *get("attention.head_count_kv", 0), layers, architecture)


def _heads(heads: Any, key: str, shared: Any, layers: Any, architecture: str) -> Iterator[tuple[str, Any]]:
    each = shared if isinstance(shared, list) else [shared]
    if isinstance(shared, list) and len(shared) != layers:
        yield key, f"a list of {len(shared)}"
    if not all(_within(one, 0, 1 << 16) for one in each):
        yield key, shared
        return
    missing = architecture in _PLAIN and isinstance(shared, list) and 0 in shared
    uneven = isinstance(heads, int) and any(one and heads % one for one in each)
    if missing or uneven:
        yield key, shared


def _within(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and low <= value <= high


def check_vocabulary(path: str | Path) -> None:
    """ModelError for a vocabulary with which llama.cpp aborts, on loading it or on the first text it cannot spell."""
    header = read_header(path)
    # llama.cpp reads up to the NUL, and gives empty tokens names of their own.
    entries = [token.partition(b"\0")[0] for token in read_strings(header, "tokenizer.ggml.tokens")]
    tokens = [token or b"[EMPTY_%d]" % id for id, token in enumerate(entries)]
    known = set(tokens)
    if len(known) < len(tokens):
        raise ModelError(f"{path} is damaged: two tokens of its vocabulary are spelled alike; download it again.")
    if header.metadata.get("tokenizer.ggml.model") != "llama" or not tokens:
        return
    if any(b"<0x%02X>" % byte not in known and bytes([byte]) not in known for byte in range(256)):
        raise ModelError(
            f"{path} is damaged: its vocabulary has no tokens for single bytes, so it cannot spell every text; "
            "download it again."
        )


def _damaged(header: GgufHeader, key: str, value: Any) -> ModelError:
    shown = value if len(str(value)) <= 60 else f"{str(value)[:60]}..."
    return ModelError(f"{header.path} is damaged: {key} is {shown}; download or copy it again.")
