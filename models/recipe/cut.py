"""The drafter's beginning: some layers of an instruction model's GGUF, and the first part of its vocabulary.

Byte-level BPE applies its merges in the order it learned them, so the first ones are a whole tokenizer again: it cuts
every text where the full one does and maybe in more places, and the rows of its pieces are already trained.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from omnidraft.backends.gguf.header import permuted
from omnidraft.storage.scratch import replacing

LAYERS = (0, 1, 10, 20, 29)
PIECES = 8192
# The model's own, without the sentences about itself that it puts first.
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """full: a whole vocabulary; ids: its first tokens, then bytes it lacks; control: so many are no text."""

    full: list[str]
    ids: dict[str, int]
    merges: list[tuple[str, str]]
    control: int

    def tokenizer(self) -> Tokenizer:
        """Cuts text as llama.cpp's "smollm" does: digits stand alone, then GPT-2's rule."""
        found = Tokenizer(models.BPE(self.ids, self.merges))
        cutting = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        found.pre_tokenizer, found.decoder = pre_tokenizers.Sequence(cutting), decoders.ByteLevel()
        found.add_special_tokens([AddedToken(token, special=True) for token in self.full[: self.control]])
        return found


def read_vocabulary(source: Path, pieces: int = PIECES) -> Vocabulary:
    fields = gguf.GGUFReader(source).fields
    full = fields["tokenizer.ggml.tokens"].contents()
    kept = dict.fromkeys(full[:pieces]) | dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    control = fields["tokenizer.ggml.token_type"].contents().index(gguf.TokenType.NORMAL)
    ids = {token: number for number, token in enumerate(kept)}
    return Vocabulary(full, ids, [merge for merge in merges if "".join(merge) in kept], control)


def read_model(path: Path) -> LlamaForCausalLM:
    """A LLaMA's weights from its GGUF, to be trained on."""
    read = LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    del read.config.quantization_config
    model = LlamaForCausalLM(read.config)  # what comes from a GGUF refuses to be saved
    model.load_state_dict(read.state_dict())
    return model


def new_model(source: Path, vocabulary: Vocabulary, layers: Sequence[int] = LAYERS) -> LlamaForCausalLM:
    """The layers of the file with the rows of the vocabulary; a byte without a row begins as the mean of all rows."""
    whole = read_model(source)
    config = whole.config
    config.vocab_size, config.num_hidden_layers, config.tie_word_embeddings = len(vocabulary.ids), len(layers), True
    model = LlamaForCausalLM(config)
    rows = whole.model.embed_tokens.weight.detach()
    numbers = {token: number for number, token in enumerate(vocabulary.full)}
    chosen = [rows[numbers[token]] if token in numbers else rows.mean(0) for token in vocabulary.ids]
    model.model.embed_tokens.weight.data.copy_(torch.stack(chosen))
    for ours, layer in zip(model.model.layers, layers, strict=True):
        ours.load_state_dict(whole.model.layers[layer].state_dict())
    model.model.norm.load_state_dict(whole.model.norm.state_dict())
    return model


def export(path: Path, vocabulary: Vocabulary, model: LlamaForCausalLM, dtype: str = "Q5_0") -> None:
    """Write `path`, whole or not at all. dtype: of the matrices, "F32" or "Q5_0"."""
    with replacing(path) as temporary:
        writer = gguf.GGUFWriter(temporary, "llama")
        _put_settings(writer, model.config)
        writer.add_file_type(gguf.LlamaFileType.ALL_F32 if dtype == "F32" else gguf.LlamaFileType.MOSTLY_Q5_0)
        _put_vocabulary(writer, vocabulary)
        for name, weight in _tensors(model):
            if dtype == "F32" or weight.ndim < 2:
                writer.add_tensor(name, weight)
            else:
                kind = gguf.GGMLQuantizationType[dtype]
                writer.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _put_settings(writer: gguf.GGUFWriter, config: LlamaConfig) -> None:
    writer.add_name("smol-drafter")
    writer.add_license("cc-by-sa-4.0")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def _put_vocabulary(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    size = len(vocabulary.ids)
    kinds = [gguf.TokenType.CONTROL if token < vocabulary.control else gguf.TokenType.NORMAL for token in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_vocab_size(size)
    writer.add_token_list(list(vocabulary.ids))
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in vocabulary.merges])
    writer.add_add_bos_token(False)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)


def _tensors(model: LlamaForCausalLM) -> Iterator[tuple[str, np.ndarray]]:
    """(GGUF name, float32 array) of every weight but the output matrix, which is the embedding."""
    config = model.config
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight":
            array, count = weight.float().numpy(), heads.get(name.split(".")[-2])
            theirs = names.get_name(name, try_suffixes=(".weight",))
            yield str(theirs), np.ascontiguousarray(permuted(array, count) if count else array)
