"""The drafter's beginning: some layers of an instruction model's GGUF, and the first part of its vocabulary.

Byte-level BPE applies its merges in the order it learned them, so the first ones are a whole tokenizer again: it cuts
every text where the full one does and maybe in more places, and the rows of its pieces are already trained.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from omnidraft.backends.gguf.convert import convert_folder

LAYERS = (0, 1, 10, 20, 29)
PIECES = 8192
# The model's own, without the sentences about itself that it puts first.
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The first tokens of a vocabulary, the bytes it has none for, and the merges that make nothing else.

    full: every token of the whole vocabulary; tokens: those kept; control: so many of them stand for no text.
    """

    full: list[str]
    tokens: list[str]
    merges: list[tuple[str, str]]
    control: int

    def tokenizer(self) -> Tokenizer:
        """Cuts text as llama.cpp's "smollm" does: digits stand alone, then GPT-2's rule."""
        ids = {token: number for number, token in enumerate(self.tokens)}
        found = Tokenizer(models.BPE(ids, self.merges))
        cutting = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        found.pre_tokenizer = pre_tokenizers.Sequence(cutting)
        found.decoder = decoders.ByteLevel()
        found.add_special_tokens([AddedToken(token, special=True) for token in self.tokens[: self.control]])
        return found

    def spelled(self) -> list[tuple[int, ...]]:
        """What pieces each token of the whole vocabulary is cut into."""
        tokenizer = self.tokenizer()
        ids = {token: number for number, token in enumerate(self.tokens)}
        return [
            (ids[token],) if token in ids else tuple(piece.id for piece in tokenizer.model.tokenize(token))
            for token in self.full
        ]  # fmt: skip


def read_vocabulary(reader: gguf.GGUFReader, pieces: int = PIECES) -> Vocabulary:
    full = reader.fields["tokenizer.ggml.tokens"].contents()
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in reader.fields["tokenizer.ggml.merges"].contents()]
    tokens = full[:pieces]
    known = set(tokens)
    tokens += [byte for byte in sorted(pre_tokenizers.ByteLevel.alphabet()) if byte not in known]
    kept = [merge for merge in merges if "".join(merge) in known]
    return Vocabulary(full, tokens, kept, types.index(1))


def new_model(reader: gguf.GGUFReader, vocabulary: Vocabulary, layers: Sequence[int] = LAYERS) -> LlamaForCausalLM:
    """The layers of the file with the rows of the vocabulary; a byte without a row begins as the mean of all rows."""
    model = LlamaForCausalLM(_config(reader, len(vocabulary.tokens), len(layers)))
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}

    def read(name: str) -> np.ndarray:
        return gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)

    rows = read("token_embd.weight")
    kept = [row for row, token in enumerate(vocabulary.full[: len(vocabulary.tokens)]) if token == vocabulary.tokens[row]]
    spare = np.repeat(rows.mean(0, keepdims=True), len(vocabulary.tokens) - len(kept), 0)
    state = {"model.embed_tokens.weight": np.concatenate([rows[kept], spare]), "model.norm.weight": read("output_norm.weight")}
    for place, layer in enumerate(layers):
        for theirs, ours in _NAMES.items():
            array = read(f"blk.{layer}.{theirs}.weight")
            if theirs in heads:  # llama.cpp turns neighbours, torch the two halves of a head
                array = array.reshape(heads[theirs], -1, 2, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
            state[f"model.layers.{place}.{ours}.weight"] = array
    model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()}, strict=False)
    model.tie_weights()
    return model


def _config(reader: gguf.GGUFReader, pieces: int, layers: int) -> LlamaConfig:
    def read(name: str) -> float:
        return reader.fields[f"llama.{name}"].contents()

    return LlamaConfig(
        vocab_size=pieces, num_hidden_layers=layers, hidden_size=read("embedding_length"),
        intermediate_size=read("feed_forward_length"), num_attention_heads=read("attention.head_count"),
        num_key_value_heads=read("attention.head_count_kv"), rms_norm_eps=read("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=read("context_length"), bos_token_id=1, eos_token_id=2, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": read("rope.freq_base")},
    )  # fmt: skip


def export(path: Path, vocabulary: Vocabulary, model: LlamaForCausalLM, dtype: str = "Q8_0") -> None:
    """Write `path`, whole or not at all."""
    ends = {"bos_token": vocabulary.tokens[1], "eos_token": vocabulary.tokens[2], "chat_template": TEMPLATE}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        vocabulary.tokenizer().save(str(Path(folder, "tokenizer.json")))
        Path(folder, "tokenizer_config.json").write_text(json.dumps(ends), encoding="utf-8")
        convert_folder(Path(folder), path, dtype, "smol-drafter", "apache-2.0")
