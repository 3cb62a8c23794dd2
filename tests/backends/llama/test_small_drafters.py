"""Small models people have as GGUF files draft directly: the shapes of Qwen2.5-0.5B and SmolLM2-135M, random weights.

Both draft for a bundled target with a vocabulary of another family, with the tokenizers of their families.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import gguf
import numpy as np
import pytest

from omnidraft.backends.gguf.header import read_header, read_strings
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from tests.answering import PLAIN, answered, loaded

# architecture, tokenizer, width, layers, heads, key/value heads, inner width, rows; Qwen2 has biases, both are tied
SHAPES = {
    "qwen2.5-0.5b": ("qwen2", "qwen2", 896, 24, 14, 2, 4864, 151_936),
    "smollm2-135m": ("llama", "gpt-2", 576, 30, 9, 3, 1536, 50_432),
}


def write_drafter(path: Path, vocabularies: Path, shape: str, layers: int | None = None) -> Path:
    architecture, tokenizer, width, all_layers, heads, kv, inner, rows = SHAPES[shape]
    layers, narrow = layers or all_layers, kv * width // heads
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(shape)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    _add_vocabulary(writer, vocabularies / f"ggml-vocab-{tokenizer}.gguf", rows)
    pool = np.random.default_rng(0).normal(0, 1, 1 << 21).astype(np.float16)

    def matrix(*extent: int) -> np.ndarray:
        return np.resize(pool * np.float16(extent[1] ** -0.5), extent)

    writer.add_tensor("token_embd.weight", matrix(rows, width))
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(layers):
        block = {
            "attn_q": matrix(width, width), "attn_k": matrix(narrow, width), "attn_v": matrix(narrow, width),
            "attn_output": matrix(width, width), "ffn_gate": matrix(inner, width), "ffn_up": matrix(inner, width),
            "ffn_down": matrix(width, inner), "attn_norm": np.ones(width, np.float32),
            "ffn_norm": np.ones(width, np.float32),
        }  # fmt: skip
        for name, array in block.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", array)
        for name, size in {"q": width, "k": narrow, "v": narrow}.items() if architecture == "qwen2" else ():
            writer.add_tensor(f"blk.{layer}.attn_{name}.bias", np.full(size, 0.1, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter, source: Path, rows: int) -> None:
    """The tokenizer of a vocabulary file, padded to `rows` as published models are."""
    header = read_header(source)
    tokens = read_strings(header, "tokenizer.ggml.tokens")
    kept = header.metadata["tokenizer.ggml.token_type"]
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        types = np.frombuffer(data[kept.position : kept.position + 4 * kept.length], np.int32).tolist()
    missing = range(len(tokens), rows)
    writer.add_tokenizer_model(header.metadata["tokenizer.ggml.model"])
    writer.add_tokenizer_pre(header.metadata["tokenizer.ggml.pre"])
    writer.add_token_list([*tokens, *(f"[PAD{number}]" for number in missing)])
    writer.add_token_types([*types, *(gguf.TokenType.UNUSED for _ in missing)])
    writer.add_token_merges([merge.decode() for merge in read_strings(header, "tokenizer.ggml.merges")])
    writer.add_eos_token_id(header.metadata["tokenizer.ggml.eos_token_id"])


@pytest.mark.parametrize("shape", [pytest.param("qwen2.5-0.5b", marks=pytest.mark.slow), "smollm2-135m"])
def test_two_layers_of_it_draft(shared: Path, models: Path, tmp_path: Path, shape: str):
    """The text is the target's own, at T = 0 and T = 1, and pieces of this drafter were proposed."""
    path = write_drafter(tmp_path / f"{shape}.gguf", shared / "vocabs", shape, layers=2)
    settings, fixed = ModelSettings(n_ctx=256, threads=1), DraftSettings(mode="fixed", length=3)
    with loaded(tmp_path / "home", models / "tiny-target-a-f16.gguf", path, settings) as assistant:
        for temperature in (0.0, 1.0):
            sampling = SamplingSettings(temperature=temperature, seed=3, max_tokens=16)
            (plain, _), (drafted, done) = (
                answered(assistant, "Hello, who are you?", sampling, draft) for draft in (PLAIN, fixed)
            )
            assert drafted == plain
            assert done.draft_disabled_reason is None
            assert done.statistics.drafted > 10
            assert done.statistics.proposed > 5
