"""Trains the vocabularies: byte-level BPE split as Llama 3 or Qwen 2 split it, and SentencePiece-style BPE.

Knows text and a `ModelSpec`; nothing of conversations or models. llama.cpp re-implements each of these three
tokenizers from the vocabulary alone, so pre-tokenization has to be exactly the one it applies.
"""

import random
from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from .specs import ModelSpec

SPACE_MARK = "▁"
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))

# The published pre-tokenizer patterns; they differ only in how many digits stay together.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLIT_PATTERNS = {"llama-bpe": _SPLIT.format(digits="{1,3}"), "qwen2": _SPLIT.format(digits="")}


def train_tokenizer(spec: ModelSpec, texts: Sequence[str]) -> Tokenizer:
    """A tokenizer of `spec.vocabulary_size` tokens (fewer if the text is too small for that many merges)."""
    shuffled = list(texts)
    random.Random(spec.seed).shuffle(shuffled)
    tokenizer, trainer = _sentencepiece(spec) if spec.vocabulary == "spm" else _byte_level(spec)
    tokenizer.train_from_iterator(shuffled, trainer)
    tokenizer.add_special_tokens(list(spec.controls))
    return tokenizer


def _byte_level(spec: ModelSpec) -> tuple[Tokenizer, trainers.BpeTrainer]:
    """Byte-level BPE: control tokens come last, behind all merges."""
    tokenizer = split_as(spec.vocabulary, Tokenizer(models.BPE()))
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocabulary_size - len(spec.controls),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return tokenizer, trainer


def split_as(kind: str, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the splitting and decoding of a byte-level kind."""
    split = pre_tokenizers.Split(Regex(SPLIT_PATTERNS[kind]), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(spec: ModelSpec) -> tuple[Tokenizer, trainers.BpeTrainer]:
    """BPE over characters with a space mark and byte fallback: control tokens, then bytes, then merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE_MARK), normalizers.Replace(" ", SPACE_MARK)])
    words = Regex(f"{SPACE_MARK}*[^{SPACE_MARK}]+|{SPACE_MARK}+")  # a piece never reaches into the next word
    tokenizer.pre_tokenizer = pre_tokenizers.Split(words, "isolated")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocabulary_size,
        special_tokens=[*spec.controls, *BYTE_TOKENS],
        initial_alphabet=[chr(code) for code in range(33, 127)],
        limit_alphabet=200,
        max_token_length=16,
        show_progress=False,
    )
    return tokenizer, trainer
