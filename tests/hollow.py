"""GGUF files of any size without weights: headers as real models have them before a hole that fills no disk."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

TYPES = {"F16": (Kind.F16, Kind.F16), "Q8_0": (Kind.Q8_0, Kind.Q8_0), "Q4_K_M": (Kind.Q4_K, Kind.Q6_K)}


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    tied: bool = False


SHAPES = {
    "1B": Shape(2048, 16, 32, 8, 8192, 128_256, tied=True),
    "3B": Shape(3072, 28, 24, 8, 8192, 128_256, tied=True),
    "8B": Shape(4096, 32, 32, 8, 14_336, 128_256),
    "14B": Shape(5120, 40, 40, 8, 17_408, 151_936),
    "32B": Shape(5120, 64, 40, 8, 25_600, 151_936),
    "70B": Shape(8192, 80, 64, 8, 28_672, 128_256),
}


def write_hollow(path: Path, shape: Shape, kind: str, context: int = 131_072) -> Path:
    """A Llama model of `shape` at `path`; Q4_K_M keeps half of `ffn_down` and `attn_v` and the output in six bits."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_vocab_size(shape.vocabulary)
    _add_vocabulary(writer, shape.vocabulary)
    for name, dims, raw in _tensors(shape, *TYPES[kind]):
        size = prod(gguf.quant_shape_to_byte_shape(dims, raw))
        writer.add_tensor_info(name, dims, np.dtype(np.float16), size, raw_dtype=raw)
    padded = [writer.ggml_pad(tensor.nbytes, writer.data_alignment) for tensor in writer.tensors[0].values()]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(path, writer.ggml_pad(path.stat().st_size, writer.data_alignment) + sum(padded))
    return path


def tensor_sizes(shape: Shape, kind: str) -> Iterator[tuple[str, int]]:
    """(name, bytes) of every tensor of such a file."""
    for name, dims, raw in _tensors(shape, *TYPES[kind]):
        yield name, prod(gguf.quant_shape_to_byte_shape(dims, raw))


def _tensors(shape: Shape, most: Kind, some: Kind) -> Iterator[tuple[str, tuple[int, ...], Kind]]:
    """(name, rows x columns, type) of every tensor, as llama.cpp's quantizer mixes types."""
    width, kv = shape.width, shape.width // shape.heads * shape.kv_heads
    yield "token_embd.weight", (shape.vocabulary, width), some if shape.tied else most
    yield "output_norm.weight", (width,), Kind.F32
    if not shape.tied:
        yield "output.weight", (shape.vocabulary, width), some
    for layer in range(shape.layers):
        mixed = some if layer % 2 else most
        yield f"blk.{layer}.attn_norm.weight", (width,), Kind.F32
        yield f"blk.{layer}.ffn_norm.weight", (width,), Kind.F32
        yield f"blk.{layer}.attn_q.weight", (width, width), most
        yield f"blk.{layer}.attn_k.weight", (kv, width), most
        yield f"blk.{layer}.attn_v.weight", (kv, width), mixed
        yield f"blk.{layer}.attn_output.weight", (width, width), most
        yield f"blk.{layer}.ffn_gate.weight", (shape.ffn, width), most
        yield f"blk.{layer}.ffn_up.weight", (shape.ffn, width), most
        yield f"blk.{layer}.ffn_down.weight", (width, shape.ffn), mixed


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    """The letters of bytes as GPT-2 writes them, then names that no text becomes."""
    letters = [chr(0x100 + byte) for byte in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(letters + [f"<unused {i}>" for i in range(256, size)])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.UNUSED] * (size - 256))
    writer.add_token_merges([f"{letters[65]} {letters[66]}"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
