"""Writes a model and its tokenizer as one GGUF file that llama.cpp loads without anything else.

Matrices become F16 (or stay F32), norms stay F32, as llama.cpp expects for its `llama` architecture.
"""

import json
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from .specs import ModelSpec
from .tokenizers import BYTE_TOKENS

Precision = Literal["F16", "F32"]

# torch name -> GGUF name, inside one block and outside the blocks
_BLOCK = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def export_gguf(
    path: Path, spec: ModelSpec, tokenizer: Tokenizer, model: LlamaForCausalLM, precision: Precision = "F16"
) -> None:
    """Write `path`, whole or not at all."""
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), "llama")
    _add_shape(writer, spec, model.config, precision)
    _add_vocabulary(writer, spec, tokenizer)
    _add_tensors(writer, model, precision)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)


def _add_shape(writer: gguf.GGUFWriter, spec: ModelSpec, config: LlamaConfig, precision: Precision) -> None:
    writer.add_name(spec.name)
    writer.add_license(spec.licence)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    kinds = {"F16": gguf.LlamaFileType.MOSTLY_F16, "F32": gguf.LlamaFileType.ALL_F32}
    writer.add_file_type(kinds[precision])


def _add_vocabulary(writer: gguf.GGUFWriter, spec: ModelSpec, tokenizer: Tokenizer) -> None:
    by_id = {i: token for token, i in tokenizer.get_vocab(with_added_tokens=True).items()}
    tokens = [by_id[i] for i in range(len(by_id))]
    merges = ["".join(m) if spec.vocabulary == "spm" else " ".join(m) for m in _merges(tokenizer)]
    types = [_token_type(spec, token) for token in tokens]
    if spec.vocabulary == "spm":
        writer.add_tokenizer_model("llama")
        writer.add_token_list([token.encode() for token in tokens])
        writer.add_token_scores(_scores(tokens, types, merges))
        writer.add_token_types(types)
        writer.add_unk_token_id(tokenizer.token_to_id("<unk>"))
        writer.add_add_space_prefix(True)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(spec.vocabulary)
        writer.add_token_list([token.encode() for token in tokens])
        writer.add_token_types(types)
        writer.add_token_merges(merges)
    writer.add_add_bos_token("bos_token" in spec.template)
    writer.add_bos_token_id(tokenizer.token_to_id(spec.bos))
    writer.add_eos_token_id(tokenizer.token_to_id(spec.eos))
    writer.add_chat_template(spec.template)


def _merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """The BPE merges, best first. Older tokenizer files join a pair by a space."""
    stored = json.loads(tokenizer.to_str())["model"]["merges"]
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in stored)
    return [(first, second) for first, second in pairs]


def _token_type(spec: ModelSpec, token: str) -> int:
    if token == "<unk>":
        return gguf.TokenType.UNKNOWN
    if token in spec.controls:
        return gguf.TokenType.CONTROL
    if spec.vocabulary == "spm" and token in BYTE_TOKENS:
        return gguf.TokenType.BYTE
    return gguf.TokenType.NORMAL


def _scores(tokens: list[str], types: list[int], merged: list[str]) -> list[float]:
    """llama.cpp merges the pair whose result scores highest: minus the rank of the first merge that makes it."""
    rank: dict[str, int] = {}
    for position, text in enumerate(merged):
        rank.setdefault(text, position)
    normal = gguf.TokenType.NORMAL
    return [
        float(-rank.get(token, len(merged))) if kind == normal else 0.0
        for token, kind in zip(tokens, types, strict=True)
    ]


def _add_tensors(writer: gguf.GGUFWriter, model: LlamaForCausalLM, precision: Precision) -> None:
    heads = model.config.num_attention_heads
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue  # llama.cpp falls back to the embedding
        stem = name.removesuffix(".weight")
        if stem.endswith(("q_proj", "k_proj")):
            tensor = interleave_rotary(tensor, heads)
        array = tensor.detach().cpu().float().numpy()
        writer.add_tensor(gguf_name(stem), array.astype(np.float16) if precision == "F16" and array.ndim > 1 else array)


def gguf_name(stem: str) -> str:
    """The GGUF tensor name of a torch module's weight."""
    if stem in _OUTSIDE:
        return f"{_OUTSIDE[stem]}.weight"
    _, _, layer, inner = stem.split(".", 3)  # model.layers.N.inner
    return f"blk.{layer}.{_BLOCK[inner]}.weight"


def interleave_rotary(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder q or k rows: torch rotates (i, i + half) of a head together, llama.cpp (2i, 2i + 1)."""
    rows, columns = weight.shape
    half = rows // heads // 2
    return weight.view(heads, 2, half, columns).transpose(1, 2).reshape(rows, columns)
