"""What a model's token ids mean: the bytes each stands for, its kind, and how text becomes ids.

Everything compares bytes, never strings. Knows nothing of weights, templates or other vocabularies; the readers of
GGUF files (llama_vocab.py) and tokenizer.json files (hf_vocab.py) fill in what it holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import IntEnum
from functools import cached_property

import numpy as np

from omnidraft.vocab.exact import ExactEncoder, Tokenizer

# Encoding this tells apart vocabularies with equal pieces that cut text differently.
_PROBE = " The  quick_brown\tfox's 12345 déjà-vu,\n\n  if x >= 3.14: return '中文' 😀 don't"
# Ends of a turn, most specific first, as chat models of the known families call them.
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|eot|>", "<|return|>", "[EOT]")


class TokenKind(IntEnum):
    """NORMAL, BYTE and USER_DEFINED tokens stand for text; the others do not."""

    NORMAL = 0
    BYTE = 1
    CONTROL = 2
    UNKNOWN = 3
    USER_DEFINED = 4
    UNUSED = 5


_PREFERENCE = (TokenKind.NORMAL, TokenKind.USER_DEFINED, TokenKind.BYTE)


class Vocabulary:
    """One model's vocabulary, made by `read_gguf_vocabulary` (llama_vocab.py) or `read_tokenizer_json` (hf_vocab.py).

    size: number of logit rows, padding included. pieces: the bytes of each id in a text, b"" for control, unknown and
    unused ids. kinds: (size,) uint8 of TokenKind. ordinary: (size,) bool, the ids that stand for text. eog: ids that
    end generation. eos: the id that ends a turn (one of eog), None if there is none. controls: control text to id.
    fingerprint: hex SHA-256, equal for equal vocabularies whatever file they came from and however they are padded.
    family: a human word ("llama-bpe", "qwen2", "spm"). by_bytes: the preferred ordinary id of each byte string.
    """

    def __init__(
        self,
        *,
        pieces: list[bytes],
        kinds: np.ndarray,
        eog: Iterable[int],
        bos: int | None,
        eos: int | None,
        add_bos: bool,
        controls: dict[str, int],
        family: str,
        tokenizer: Tokenizer,
    ):
        self.pieces = pieces
        self.size = len(pieces)
        self.kinds = kinds.astype(np.uint8)
        self.eog = frozenset(eog)
        self.bos, self.eos, self.add_bos = bos, eos, add_bos
        self.controls = controls
        self.family = family
        speakable = np.isin(self.kinds, _PREFERENCE)
        self.ordinary = speakable & np.array([bool(piece) for piece in pieces])
        self.by_bytes = self._index_bytes()
        merged = [pieces[i] for i in np.flatnonzero(self.ordinary & (self.kinds != TokenKind.BYTE))]
        self.encoder = ExactEncoder(tokenizer, pieces, self.by_bytes, merged)
        self.fingerprint = self._fingerprint()

    def preferred(self, token: int) -> int:
        """Of the ids with this one's bytes the one that stands for them."""
        return self.by_bytes.get(self.pieces[token], token)

    def encode(self, text: str, *, at_start: bool = False) -> list[int]:
        """Ids of `text`: special parsing off (typed control strings stay text), no beginning-of-sequence token.

        at_start: as the tokenizer treats the beginning of a text or what follows a control token, where SentencePiece
        adds a space. Otherwise mid-text, and the bytes of the ids are exactly the text's. Lone surrogates, which no
        UTF-8 text can hold, become U+FFFD.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        return self.encoder.encode(self.encoder.start_prefix(data) + data if at_start else data)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Mid-text ids of any bytes, partial UTF-8 included. ValueError if a byte cannot be spelled."""
        return self.encoder.encode(data)

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes the ids stand for; control tokens add nothing."""
        return b"".join([self.pieces[i] for i in ids])

    @cached_property
    def longest_piece(self) -> int:
        """Bytes that one token stands for at most."""
        return max(1, *map(len, self.pieces))

    @cached_property
    def control_texts(self) -> dict[int, bytes]:
        """How control tokens are spelled, by id."""
        return {id: text.encode() for text, id in self.controls.items()}

    def _index_bytes(self) -> dict[bytes, int]:
        """Byte string to id: ordinary pieces win over byte tokens, lower ids over higher ones."""
        index: dict[bytes, int] = {}
        for kind in _PREFERENCE:
            for token in np.flatnonzero(self.ordinary & (self.kinds == kind)).tolist():
                index.setdefault(self.pieces[token], token)
        return index

    def _fingerprint(self) -> str:
        used = np.flatnonzero(self.kinds != TokenKind.UNUSED)
        end = int(used[-1]) + 1 if len(used) else 0
        digest = hashlib.sha256(b"spm" if self.encoder.adds_space else b"bpe")
        digest.update(np.array([len(piece) for piece in self.pieces[:end]], dtype=np.int32).tobytes())
        digest.update(b"".join(self.pieces[:end]))
        digest.update(self.kinds[:end].tobytes())
        digest.update(np.array(sorted(self.eog), dtype=np.int32).tobytes())
        digest.update(np.array(self.encode(_PROBE), dtype=np.int32).tobytes())
        return digest.hexdigest()


def turn_end(candidates: dict[str, int], eos: int | None, template: str | None) -> int | None:
    """The id with which a turn ends, among the end-of-generation tokens (text to id).

    Base models declare the end of a document as their eos while their chat template closes a turn with another token,
    so what the template writes wins, then the declared eos if the template names neither, then the known names.
    """
    texts = {token: text for text, token in candidates.items()}
    if template:
        written = [token for text, token in candidates.items() if text in template]
        if eos in written or (not written and eos is not None):
            return eos
        if written:
            return min(written, key=lambda token: _rank(texts[token]))
    known = [token for text, token in candidates.items() if text in _TURN_ENDS]
    if known:
        return min(known, key=lambda token: _rank(texts[token]))
    return eos


def _rank(text: str) -> int:
    return _TURN_ENDS.index(text) if text in _TURN_ENDS else len(_TURN_ENDS)
