"""Reads a vocabulary from a Hugging Face tokenizer.json, through the `tokenizers` library.

Knows that file's conventions (byte-level letters, byte fallback, added tokens) and takes what the file does not say
(row count, end-of-generation ids) from the model's configuration files beside it, where there are any.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from omnidraft.errors import ModelError, first_line
from omnidraft.storage.files import read_json, read_object
from omnidraft.vocab.vocabulary import TokenKind, Vocabulary, turn_end

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
# Where answers have parts, each ends with <|end|>, and the answer itself with one of these (gpt-oss, Solar Open).
_ENDS_OF_PARTED = ({"<|return|>", "<|call|>"}, {"<|flush|>", "<|calls|>"})
# Control tokens that end generation in the known families, whatever a configuration file says or leaves out.
_NAMED_ENDS = """
    <|eot_id|> <|im_end|> <|end|> <end_of_turn> <turn|> <|endoftext|> <|end_of_text|> <|eom_id|> <|return|>
    <|call|> <|flush|> <|calls|> <EOT> _<EOT> [EOT] [EOS] </s> <｜end▁of▁sentence｜> <|eot|> <|endofturn|>
"""
_KNOWN_ENDS = frozenset(_NAMED_ENDS.split())


def read_tokenizer_json(path: str | Path) -> Vocabulary:
    """Read a Hugging Face tokenizer.json and, where they lie beside it, the model's configuration files.

    ModelError if the file is missing or no tokenizer.
    """
    from tokenizers import Tokenizer as Library  # takes longer to load than most that needs no such file

    path = Path(path)
    try:
        content = path.read_text(encoding="utf-8")
        description = read_json(content)
        library = Library.from_str(content)
        texts = _token_texts(library, description)
    except FileNotFoundError:
        raise ModelError(f"There is no tokenizer file at {path}.") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # the library raises bare Exception for any fault of the file
        raise ModelError(f"{path} is not a tokenizer.json: {first_line(error)}.") from None
    try:
        return _vocabulary(library, description, texts, _Configuration(path.parent))
    except ValueError as error:  # also where it cannot spell the texts that a vocabulary is told by
        raise ModelError(f"{path} is no vocabulary for text: {str(error)[:200]}.") from None


def _vocabulary(library: Library, description: dict, texts: list[str], beside: _Configuration) -> Vocabulary:
    size = max(len(texts), beside.rows)
    pieces, kinds = _pieces(texts, description, size)
    controls = {texts[i]: i for i in np.flatnonzero(kinds[: len(texts)] == TokenKind.CONTROL).tolist()}
    parts = any(pair <= controls.keys() for pair in _ENDS_OF_PARTED)
    known = _KNOWN_ENDS - {"<|end|>"} if parts else _KNOWN_ENDS
    ends = {text: token for text, token in controls.items() if text in known or token in beside.ends}
    declared = next((token for token in beside.ends if token in ends.values()), None)
    bos = beside.bos if beside.bos in controls.values() else _first_special(library, controls)
    return Vocabulary(
        pieces=pieces,
        kinds=kinds,
        eog=ends.values(),
        bos=bos,
        eos=turn_end(ends, declared, beside.template),
        add_bos=beside.add_bos if beside.add_bos is not None else _first_special(library, controls) is not None,
        controls=controls,
        family="bpe" if _byte_level(description) else "spm",
        tokenizer=HubTokenizer(library, not _byte_level(description)),
    )


class HubTokenizer:
    """The library's tokenizer with special tokens encoded as plain text."""

    def __init__(self, library: Library, marks_words: bool):
        library.encode_special_tokens = True
        library.no_truncation()
        library.no_padding()
        self._library = library
        self.marks_words = marks_words

    def tokenize(self, data: bytes) -> list[int]:
        try:
            return self._library.encode(data.decode(), add_special_tokens=False).ids
        except Exception as error:  # the library's own kind, as for an unknown token that is not there
            raise ModelError(f"This vocabulary cannot spell a text: {first_line(error)}.") from None


class _Configuration:
    """What the files beside a tokenizer.json say; anything missing or malformed counts as not said."""

    def __init__(self, folder: Path):
        model, tokenizer, generation = (
            read_object(folder / name) for name in ("config.json", "tokenizer_config.json", "generation_config.json")
        )
        text = model.get("text_config")
        inner: dict[str, Any] = text if isinstance(text, dict) else {}
        rows = model.get("vocab_size", inner.get("vocab_size", 0))
        self.rows = rows if isinstance(rows, int) else 0
        self.ends = [
            token
            for source in (generation, model, inner)
            for token in _as_list(source.get("eos_token_id"))
            if isinstance(token, int)
        ]
        bos = next((s["bos_token_id"] for s in (generation, model, inner) if "bos_token_id" in s), None)
        self.bos = bos if isinstance(bos, int) else None
        add_bos = tokenizer.get("add_bos_token")
        self.add_bos = add_bos if isinstance(add_bos, bool) else None
        self.template = read_template(folder)


def read_template(folder: Path, variant: str = "default") -> str | None:
    """The folder's chat template, or another of that name: a file of its own, else in tokenizer_config.json."""
    own = "chat_template.jinja" if variant == "default" else f"additional_chat_templates/{variant}.jinja"
    with suppress(OSError, ValueError):
        return (folder / own).read_text(encoding="utf-8")
    template = read_object(folder / "tokenizer_config.json").get("chat_template")
    if not isinstance(template, list):
        template = [{"name": "default", "template": template}]
    named = {str(entry.get("name")): entry.get("template") for entry in template if isinstance(entry, dict)}
    found = named.get(variant)
    return found if isinstance(found, str) and found else None


def _token_texts(library: Library, description: dict) -> list[str]:
    """Token texts by id; "" where no token has the id."""
    vocabulary: dict[str, int] = library.get_vocab(with_added_tokens=True)
    if not vocabulary or not isinstance(description.get("model"), dict):
        raise ValueError("it holds no vocabulary")
    texts = [""] * (max(vocabulary.values()) + 1)
    for text, token in vocabulary.items():
        texts[token] = text
    return texts


def _pieces(texts: list[str], description: dict, size: int) -> tuple[list[bytes], np.ndarray]:
    """(pieces, kinds) of `size` rows; rows without a token are unused."""
    kinds = np.full(size, TokenKind.UNUSED, dtype=np.uint8)
    pieces = [b""] * size
    fallback = bool(description["model"].get("byte_fallback"))
    byte_level = _byte_level(description)
    added = {token["id"]: token for token in description.get("added_tokens") or []}
    unknown = description["model"].get("unk_token")
    unknown_id = description["model"].get("unk_id")
    for token, text in enumerate(texts):
        byte = _BYTE_TOKEN.fullmatch(text) if fallback else None
        if byte:
            kinds[token], pieces[token] = TokenKind.BYTE, bytes.fromhex(byte[1])
        elif text and (text == unknown or token == unknown_id):
            kinds[token] = TokenKind.UNKNOWN
        elif token in added:
            special = added[token].get("special")
            padding = text == f"[PAD{token}]"
            kinds[token] = TokenKind.UNUSED if padding else TokenKind.CONTROL if special else TokenKind.USER_DEFINED
            pieces[token] = text.encode() if kinds[token] == TokenKind.USER_DEFINED else b""
        elif text:
            kinds[token] = TokenKind.NORMAL
            pieces[token] = _from_letters(text) if byte_level else text.replace("\u2581", " ").encode()
    return pieces, kinds


def _byte_letters() -> dict[str, int]:
    """Byte-level BPE writes each byte as one printable letter: itself if printable, else the next from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


_LETTERS = _byte_letters()


def _from_letters(text: str) -> bytes:
    try:
        return bytes([_LETTERS[letter] for letter in text])
    except KeyError:
        return text.encode()


def _byte_level(description: dict) -> bool:
    """Whether bytes are written as letters: then the decoder or a pre-tokenizer is called ByteLevel."""
    return any('"ByteLevel"' in json.dumps(description.get(part)) for part in ("decoder", "pre_tokenizer"))


def _first_special(library: Library, controls: dict[str, int]) -> int | None:
    """The control id that the file's own post-processor puts before a text, None if it puts none."""
    ids = library.encode("a", add_special_tokens=True).ids
    return ids[0] if len(ids) > 1 and ids[0] in controls.values() else None


def _as_list(value: Any) -> list:
    return value if isinstance(value, list) else [value]
