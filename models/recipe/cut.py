"""The drafter's beginning: some layers of an instruction model's GGUF, and the first part of its vocabulary.

Byte-level BPE applies its merges in the order it learned them, so the first ones are a whole tokenizer again: it cuts
every text where the full one does and maybe in more places, and the rows of its pieces are already trained.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM

from omnidraft.backends.gguf.convert import convert_folder

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

    def spelled(self) -> list[tuple[int, ...]]:
        """What pieces each token of the whole vocabulary is cut into."""
        cut = models.BPE(self.ids, self.merges).tokenize
        return [(self.ids[t],) if t in self.ids else tuple(piece.id for piece in cut(t)) for t in self.full]


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


def export(path: Path, vocabulary: Vocabulary, model: LlamaForCausalLM, dtype: str = "Q8_0") -> None:
    """Write `path`, whole or not at all."""
    ends = {"bos_token": vocabulary.full[1], "eos_token": vocabulary.full[2], "chat_template": TEMPLATE}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        vocabulary.tokenizer().save(str(Path(folder, "tokenizer.json")))
        Path(folder, "tokenizer_config.json").write_text(json.dumps(ends), encoding="utf-8")
        convert_folder(Path(folder), path, dtype, "smol-drafter", "cc-by-sa-4.0")
