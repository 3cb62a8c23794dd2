"""The tokenizer of a Hugging Face folder as the metadata a GGUF file keeps: `vocabulary_keys`.

Takes tokenizer.json (SentencePiece style with byte fallback, or byte-level BPE) or tokenizer.model. GGUF does not store
how byte-level text is cut before merging, it names one of llama.cpp's ways; `splitters` lists those worth trying, and
the caller keeps the one that tokenizes alike.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.errors import ModelError
from omnidraft.storage.files import read_json, read_object

# SentencePiece.Type, which GGUF's token types continue.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_SPLITTERS = ("llama-bpe", "qwen2", "smollm", "gpt-2", "deepseek-llm", "tekken", "olmo", "default")


@dataclass(slots=True)
class VocabularyKeys:
    """Tokens by id with type and score; merges for byte-level BPE. `model` is "llama" (SentencePiece) or "gpt2"."""

    model: str
    tokens: list[str]
    types: list[int]
    scores: list[float]
    merges: list[str]
    bos: int | None
    eos: int | None
    unknown: int | None
    add_bos: bool
    adds_space: bool

    @property
    def splitters(self) -> tuple[str, ...]:
        return _SPLITTERS if self.model == "gpt2" else ("default",)

    def pad(self, size: int) -> None:
        """Unused entries up to `size`, the number of rows the weights have; ModelError if they have fewer."""
        if len(self.tokens) > size:
            raise ModelError(f"The tokenizer has {len(self.tokens)} tokens, but the weights only {size} rows.")
        for token in range(len(self.tokens), size):
            self.tokens.append(f"[PAD{token}]")
            self.types.append(UNUSED)
            self.scores.append(-1e6)


def read_vocabulary(folder: Path, config: dict[str, Any]) -> VocabularyKeys:
    """ModelError if the folder has no tokenizer, or one that llama.cpp has no counterpart for."""
    if (folder / "tokenizer.json").is_file():
        keys = _from_json(folder / "tokenizer.json")
    elif (folder / "tokenizer.model").is_file():
        keys = read_spm(folder / "tokenizer.model")
    else:
        raise ModelError(f"{folder} holds neither tokenizer.json nor tokenizer.model; download it again.")
    _settle_ends(keys, folder, config)
    return keys


def _from_json(path: Path) -> VocabularyKeys:
    try:
        content = read_json(path.read_text(encoding="utf-8"))
        model = content["model"]
        vocabulary: dict[str, int] = dict(model["vocab"])
        merges = [tuple(m.split(" ", 1) if isinstance(m, str) else m) for m in model["merges"]]
        added = content.get("added_tokens") or []
        vocabulary |= {token["content"]: token["id"] for token in added}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelError(f"{path} is not the file of a byte-pair tokenizer (BPE), the only kind supported.") from None
    byte_level = any('"ByteLevel"' in json.dumps(content.get(part)) for part in ("pre_tokenizer", "decoder"))
    if not byte_level and not model.get("byte_fallback"):
        raise ModelError(f"{path} has neither byte-level pieces nor byte fallback, so it cannot spell every text.")
    size = max(vocabulary.values()) + 1
    tokens = [f"[PAD{token}]" for token in range(size)]
    types = [UNUSED] * size
    special = {token["id"]: bool(token.get("special")) for token in added}
    for text, token in vocabulary.items():
        tokens[token] = text
        types[token] = _type(text, token, model, special, byte_level)
    unknown = next((token for token in range(size) if types[token] == UNKNOWN), None)
    return VocabularyKeys(
        "gpt2" if byte_level else "llama", tokens, types, _scores(tokens, merges),
        [" ".join(merge) for merge in merges] if byte_level else [], None, None, unknown,
        _writes_bos(content), _adds_space(content),
    )  # fmt: skip


def _type(text: str, token: int, model: dict[str, Any], special: dict[int, bool], byte_level: bool) -> int:
    if not byte_level and len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return BYTE
    if text == model.get("unk_token"):
        return UNKNOWN
    if token in special:
        return CONTROL if special[token] else USER_DEFINED
    return NORMAL


def _scores(tokens: list[str], merges: list[tuple[str, str]]) -> list[float]:
    """SentencePiece merges what has the highest score first: minus the rank of the earliest merge into the piece."""
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    return [-float(ranks.get(token, len(merges))) for token in tokens]


def _writes_bos(content: dict[str, Any]) -> bool:
    """Whether the file's post-processor puts a special token before a text."""
    processor = content.get("post_processor") or {}
    steps = [processor, *(processor.get("processors") or [])]
    singles = [step.get("single") or [{}] for step in steps if step.get("type") == "TemplateProcessing"]
    return any("SpecialToken" in single[0] for single in singles)


def _adds_space(content: dict[str, Any]) -> bool:
    """Whether a text's first word is spelled as if a space stood before it."""
    spelled = json.dumps([content.get("normalizer"), content.get("pre_tokenizer")])
    return '"Prepend"' in spelled or '"prepend_scheme": "always"' in spelled or '"prepend_scheme": "first"' in spelled


def _settle_ends(keys: VocabularyKeys, folder: Path, config: dict[str, Any]) -> None:
    """Beginning and end of sequence: the tokenizer's own settings come first, as configurations often disagree."""
    settings = read_object(folder / "special_tokens_map.json") | read_object(folder / "tokenizer_config.json")
    for name in ("bos", "eos"):
        named = settings.get(f"{name}_token")
        text = named.get("content") if isinstance(named, dict) else named
        known = next((i for i, t in enumerate(keys.tokens) if t == text), None) if isinstance(text, str) else None
        conventional = {"bos": "<s>", "eos": "</s>"}[name]
        usual = keys.tokens.index(conventional) if conventional in keys.tokens else None
        listed = config.get(f"{name}_token_id")
        listed = listed[0] if isinstance(listed, list) and listed else listed
        declared = listed if isinstance(listed, int) and 0 <= listed < len(keys.tokens) else None
        if declared is not None and keys.types[declared] != CONTROL:
            declared = None
        own = getattr(keys, name)
        chosen = next((token for token in (known, own, declared, usual) if token is not None), None)
        setattr(keys, name, chosen)
        if chosen is not None:
            keys.types[chosen] = CONTROL
    if isinstance(settings.get("add_bos_token"), bool):
        keys.add_bos = settings["add_bos_token"]
    keys.add_bos = keys.add_bos and keys.bos is not None


# Reads a SentencePiece tokenizer.model: a protocol buffer of which a handful of fields matter. Knows the wire format
# as far as needed (varints, fixed words, nested messages) and the field numbers of SentencePiece's ModelProto;
# tokenizes nothing.


_UNIGRAM, _BPE = 1, 2
_FIXED = {1: 8, 5: 4}  # bytes of the wire types with a fixed length


def read_spm(path: Path) -> VocabularyKeys:
    """A tokenizer.model; ModelError if the file is missing, damaged, or not a byte-pair model."""
    try:
        return _spm_model(path, path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, IndexError, struct.error):
        raise ModelError(f"{path} is not a SentencePiece model or is damaged; download it again.") from None


def _spm_model(path: Path, data: bytes) -> VocabularyKeys:
    pieces: list[str] = []  # with U+2581 for spaces
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            pieces.append(piece[1].decode() if 1 in piece else "")
            scores.append(struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0)
            types.append(piece.get(3, NORMAL))
        elif number == 2:
            trainer = dict(_fields(value))
        elif number == 3:
            normalizer = dict(_fields(value))
    if not pieces:
        raise ValueError("no pieces")
    if trainer.get(3, _UNIGRAM) != _BPE:
        raise ModelError(f"{path} is not a byte-pair model (BPE), the only kind of SentencePiece model Llama uses.")
    bos, eos = _id(trainer.get(41, 1), types), _id(trainer.get(42, 2), types)
    unknown = types.index(UNKNOWN) if UNKNOWN in types else None
    adds_space = bool(normalizer.get(3, 1))
    return VocabularyKeys("llama", pieces, types, scores, [], bos, eos, unknown, bos is not None, adds_space)


def _id(number: int, types: list[int]) -> int | None:
    """A declared id, if it is a control token; an unset one is written as -1 in 64 bits."""
    return number if number < len(types) and types[number] == CONTROL else None


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) pairs: ints for varints, bytes for everything else."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == 2:
            length, position = _varint(data, position)
        else:
            if kind not in _FIXED:
                raise ValueError(f"wire type {kind}")
            length = _FIXED[kind]
        if position + length > len(data):
            raise ValueError("cut short")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
