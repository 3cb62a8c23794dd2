"""Starts a model from another one's checkpoint: evenly spread layers, and of the vocabulary what both can spell.

The widths must agree. Knows tokenizers and weights; nothing of training.
"""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from .specs import ModelSpec

EMBEDDING = "model.embed_tokens.weight"
TABLES = (EMBEDDING, "lm_head.weight")
ENDS, BEGINNINGS = ("eot", "im_end", "</s>"), ("begin", "endoftext", "<s>")


def start_from(spec: ModelSpec, model: LlamaForCausalLM, tokenizer: Tokenizer, checkpoint: Path) -> None:
    """Fill `model` from checkpoint.pt; the tokenizer.json beside it names the rows of its tables."""
    saved = torch.load(checkpoint, weights_only=True, map_location="cpu")["model"]
    theirs = 1 + max(int(name.split(".")[2]) for name in saved if ".layers." in name)
    ours = model.config.num_hidden_layers
    chosen = [round(i * (theirs - 1) / max(1, ours - 1)) for i in range(ours)]
    rows = rows_of(spec, tokenizer, Tokenizer.from_file(str(checkpoint.parent / "tokenizer.json")))

    def weight(name: str) -> torch.Tensor:
        parts = name.split(".")
        if ".layers." in name:
            parts[2] = str(chosen[int(parts[2])])
        found = saved[".".join(parts)]
        return torch.stack([found[row].mean(0) for row in rows]) if name in TABLES else found

    model.load_state_dict({name: weight(name) for name in model.state_dict()})


def rows_of(spec: ModelSpec, tokenizer: Tokenizer, other: Tokenizer) -> list[list[int]]:
    """For each id the other vocabulary's ids that spell the same text; controls stand for controls, in their order."""
    controls = sorted(other.get_added_tokens_decoder().items())
    known = other.get_vocab()
    rows = []
    for number in range(tokenizer.get_vocab_size()):
        token = tokenizer.id_to_token(number) or ""  # every id below its size has one
        if token in spec.controls:
            rows.append([_counterpart(spec, token, [(i, t.content) for i, t in controls])])
        elif token in known:
            rows.append([known[token]])
        else:
            # Not the decoded text: half a character has none. Both vocabularies write bytes in one alphabet.
            rows.append([number for number, _, _ in _pieces(other, token)])
    return rows


def _pieces(other: Tokenizer, token: str) -> list[tuple[int, str, tuple[int, int]]]:
    return [(piece.id, piece.value, piece.offsets) for piece in other.model.tokenize(token)]


def _counterpart(spec: ModelSpec, token: str, controls: list[tuple[int, str]]) -> int:
    """The other's end of turn for the end of turn, its beginning for the beginning, else what opens a message."""
    wanted = ENDS if token == spec.eos else BEGINNINGS if token == spec.bos else (token, "start_header", "im_start")
    return next(number for number, text in controls if any(part in text for part in wanted))
