"""Invents SentencePiece-style tokenizers of any size, and writes them as tokenizer.json."""

import json
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
