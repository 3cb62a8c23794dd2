"""Invents SentencePiece-style tokenizers of any size and writes them in both of Hugging Face's forms."""

import json
import struct
from pathlib import Path

import numpy as np

SPACE = "\u2581"
FIRST = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
_LETTERS = "etaoinshrdlucmfwygpbvkxqjz"
_OTHERS = "ETAOINSHRDLUCMFWYGPBVKXQJZ0123456789.,:;!?'\"()[]{}+-*/=<>_#"


def invent_pieces(size: int, seed: int = 0) -> list[str]:
    """`size` pieces: controls, bytes, merged pieces (each of two earlier ones), letters; Llama's order."""
    letters = [SPACE, *_LETTERS, *_OTHERS]
    random = np.random.default_rng(seed)
    known, seen = list(letters), set(letters)
    while len(FIRST) + len(known) < size:
        weights = [known[min(int(x), len(known) - 1)] for x in random.exponential(len(known) / 6, 2)]
        piece = "".join(weights)
        if len(piece) <= 9 and SPACE not in piece[1:] and piece not in seen:
            seen.add(piece)
            known.append(piece)
    return [*FIRST, *known[len(letters) :], *letters]


def write_json(folder: Path, pieces: list[str]) -> None:
    """tokenizer.json as transformers converts it: every way to split a piece in two is a merge."""
    ids = {piece: token for token, piece in enumerate(pieces)}
    merges = [
        [piece[:cut], piece[cut:]]
        for piece in pieces[len(FIRST) :]
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    added = [
        {"id": token, "content": piece, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for token, piece in enumerate(FIRST[:3])
    ]  # fmt: skip
    to_mark = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    normalizers = [{"type": "Prepend", "prepend": SPACE}, to_mark]
    decoders = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]  # fmt: skip
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing", "single": [start, text], "pair": [start, text, text],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": ids, "merges": merges},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))


def write_model(folder: Path, pieces: list[str]) -> None:
    """tokenizer.model: SentencePiece's protocol buffer."""
    types = [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - len(FIRST))]
    blocks = [
        _field(1, _field(1, piece.encode()) + b"\x15" + struct.pack("<f", -max(0, token - 259)) + _number(3, kind))
        for token, (piece, kind) in enumerate(zip(pieces, types, strict=True))
    ]
    trainer = _number(3, 2) + _number(40, 0) + _number(41, 1) + _number(42, 2) + _number(43, 2**64 - 1)
    normalizer = _field(1, b"identity") + _number(3, 1) + _number(4, 0)
    (folder / "tokenizer.model").write_bytes(b"".join(blocks) + _field(2, trainer) + _field(3, normalizer))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def add_tokens(folder: Path, texts: tuple[str, ...], *, special: bool) -> dict[str, int]:
    """Append added tokens to a tokenizer.json of either kind; their ids."""
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    used = [*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])]
    ids = {text: max(used) + 1 + number for number, text in enumerate(texts)}
    content["added_tokens"] += [
        {"id": token, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": special} for text, token in ids.items()
    ]  # fmt: skip
    file.write_text(json.dumps(content))
    return ids
