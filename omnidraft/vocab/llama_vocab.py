"""Reads a vocabulary through llama.cpp's low-level API, from a GGUF file or a loaded model.

Knows the library's token attributes and its habits; everything above sees a `Vocabulary`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp as api

from omnidraft.errors import ModelError
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab.vocabulary import TokenKind, Vocabulary, turn_end

# llama.cpp's log, kept off stderr: the latest error lines are remembered so that a failure can be explained. The only
# module that sets the library's log callback, of which a process has one. Knows nothing of models.


_ERROR_LEVEL = 4  # ggml_log_level: 1 debug, 2 info, 3 warning, 4 error, 5 continues the line before
_MOST = 64  # lines remembered of an operation


class _Own(threading.local):
    """What this thread's operation said: lines since its `begin`, and where that was in `_errors`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.since = 0


_own = _Own()
_errors: deque[tuple[int, str]] = deque(maxlen=_MOST)  # numbered, of all threads: llama.cpp has threads of its own
_numbers = itertools.count(1)
_recording: list[str] | None = None


@api.llama_log_callback
def _remember_errors(level: int, text: bytes, _user_data: object) -> None:
    if _recording is not None and text:
        _recording.append(text.decode("utf-8", "replace"))
    if level == _ERROR_LEVEL and text:
        line = text.decode("utf-8", "replace").strip()
        _errors.append((next(_numbers), line))
        if len(_own.lines) < _MOST:
            _own.lines.append(line)


def silence(set_callback: Callable[..., None] = api.llama_log_set) -> None:
    """Send llama.cpp's log to this module instead of stderr; again each time, lest another callback be in its place.
    set_callback: how a library is told that comes with it."""
    set_callback(_remember_errors, ctypes.c_void_p(0))


def begin() -> None:
    """Call before an operation whose failure `first_error` shall explain."""
    silence()
    _own.lines, _own.since = [], next(_numbers)


def first_error() -> str:
    """The first error line of this thread since its `begin`, without the C++ function it came from; may be empty.

    Lines of other threads explain only what this one has no line for: llama.cpp computes in threads of its own, but
    models may also be loaded in several threads at once, and then push out each other's lines.
    """
    others = [line for number, line in list(_errors) if number > _own.since]
    for line in [*_own.lines, *others]:
        function, _, rest = line.partition(": ")
        reason = (rest if "_" in function else line).removeprefix("error loading model: ")
        if reason:
            return reason.rstrip(".")
    return ""


@contextmanager
def recording() -> Iterator[list[str]]:
    """Every piece of log written meanwhile, whatever its level: sizes of buffers are told nowhere else."""
    global _recording
    silence()
    _recording = []
    try:
        yield _recording
    finally:
        _recording = None


_WORD_MARKING = (api.LLAMA_VOCAB_TYPE_SPM, api.LLAMA_VOCAB_TYPE_UGM)


def read_gguf_vocabulary(path: str | Path) -> Vocabulary:
    """Read only the vocabulary of a GGUF file; the model is freed with the Vocabulary's tokenizer.

    ModelError if the file is missing, damaged or has none.
    """
    path = Path(path)
    if not os.path.isfile(path):  # nor a pipe, which nobody may ever write to
        raise ModelError(f"There is no file {path}.")
    TRIALS.require(path)
    begin()
    api.llama_backend_init()
    parameters = api.llama_model_default_params()
    parameters.vocab_only = True
    model = api.llama_model_load_from_file(os.fsencode(path), parameters)
    if not model:
        reason = first_error() or "llama.cpp gives no reason"
        raise ModelError(f"{path} cannot be loaded: it is no GGUF file, damaged or of an unsupported kind ({reason}).")
    vocab = api.llama_model_get_vocab(model)
    kind = api.llama_vocab_type(vocab)
    size = api.llama_vocab_n_tokens(vocab)
    tokenizer = LlamaTokenizer(vocab, kind in _WORD_MARKING)
    weakref.finalize(tokenizer, api.llama_model_free, model)
    if kind == api.LLAMA_VOCAB_TYPE_NONE or size <= 0:
        raise ModelError(f"{path} holds no vocabulary.")
    reader = _Reader(vocab, size, tokenizer)
    texts = {token: reader.text(token) for token in reader.tokens_of(TokenKind.CONTROL)}
    ends = {texts[token]: token for token in sorted(reader.eog, reverse=True) if token in texts}
    template = _metadata(model, b"tokenizer.chat_template")
    return Vocabulary(
        pieces=reader.pieces,
        kinds=reader.kinds,
        eog=reader.eog,
        bos=_id_or_none(api.llama_vocab_bos(vocab)),
        eos=turn_end(ends, _id_or_none(api.llama_vocab_eos(vocab)), template),
        add_bos=bool(api.llama_vocab_get_add_bos(vocab)),
        controls={text: token for token, text in texts.items()},
        family=_family(model, kind),
        tokenizer=tokenizer,
    )


class LlamaTokenizer:
    """llama_tokenize with buffers of its own per thread (ctypes releases the interpreter lock while it runs)."""

    def __init__(self, vocab: ctypes.c_void_p, marks_words: bool):
        self.marks_words = marks_words
        self._vocab = vocab
        self._local = threading.local()

    def tokenize(self, data: bytes) -> list[int]:
        if not data:
            return []
        buffer = self._buffer(len(data) + 8)
        count = api.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), False, False)
        if count < 0:
            if count == -(2**31):
                raise ModelError("The text is too long to tokenize.")
            buffer = self._buffer(-count)
            count = api.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), False, False)
        return buffer[:count]

    def _buffer(self, length: int) -> ctypes.Array:
        buffer = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < length:
            buffer = (ctypes.c_int32 * (1 << max(10, length.bit_length())))()
            self._local.buffer = buffer
        return buffer


class _Reader:
    """Pieces, kinds and end-of-generation ids of every token."""

    def __init__(self, vocab: ctypes.c_void_p, size: int, tokenizer: LlamaTokenizer):
        self._vocab = vocab
        self._tokenizer = tokenizer
        self._declared_ends = {api.llama_vocab_eos(vocab), api.llama_vocab_eot(vocab)}
        attributes = np.array([api.llama_vocab_get_attr(vocab, token) for token in range(size)], dtype=np.int32)
        self.kinds = _kinds(attributes)
        self.pieces = self._read_pieces(size)
        self._mark_padding(attributes)
        self.eog = {token for token in range(size) if api.llama_vocab_is_eog(vocab, token)}
        self._restore_text(np.flatnonzero(attributes & api.LLAMA_TOKEN_ATTR_NORMAL))
        for token in self.eog:
            self.kinds[token] = TokenKind.CONTROL
        silent = np.isin(self.kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED))
        for token in np.flatnonzero(silent).tolist():
            self.pieces[token] = b""

    def text(self, token: int) -> str:
        return (api.llama_vocab_get_text(self._vocab, token) or b"").decode("utf-8", "replace")

    def tokens_of(self, kind: TokenKind) -> list[int]:
        return np.flatnonzero(self.kinds == kind).tolist()

    def _read_pieces(self, size: int) -> list[bytes]:
        read, vocab, pieces = api.llama_token_to_piece, self._vocab, []
        room = 256
        buffer = ctypes.create_string_buffer(room)
        view = memoryview(buffer)
        for token in range(size):
            length = read(vocab, token, buffer, room, 0, True)
            if length < 0:  # minus the room it needs
                room = -length
                buffer = ctypes.create_string_buffer(room)
                view = memoryview(buffer)
                length = read(vocab, token, buffer, room, 0, True)
            pieces.append(view[:length].tobytes())
        return pieces

    def _mark_padding(self, attributes: np.ndarray) -> None:
        """Rows added to round the vocabulary up are called [PAD<id>] by converters and typed in various ways."""
        for token in np.flatnonzero(~(attributes & api.LLAMA_TOKEN_ATTR_NORMAL).astype(bool)).tolist():
            if self.pieces[token] == b"[PAD%d]" % token:
                self.kinds[token] = TokenKind.UNUSED

    def _restore_text(self, normal: np.ndarray) -> None:
        """llama.cpp takes any token spelled like an end of generation for one, e.g. Qwen2's piece "</s>".

        Where the tokenizer writes plain text with that very token, it is text (HTML's strike-through, closed) and
        neither a control token nor an end. Tokens that text cannot reach stay what llama.cpp made of them.
        """
        for token in normal[self.kinds[normal] == TokenKind.CONTROL].tolist():
            reachable = self._tokenizer.tokenize(self.pieces[token]) == [token]
            if reachable and token not in self._declared_ends:
                self.kinds[token] = TokenKind.NORMAL
                self.eog.discard(token)


def _kinds(attributes: np.ndarray) -> np.ndarray:
    """TokenKind per token; where llama.cpp sets several attributes the most restrictive one counts."""
    kinds = np.full(len(attributes), TokenKind.UNUSED, dtype=np.uint8)
    for flag, kind in (
        (api.LLAMA_TOKEN_ATTR_NORMAL, TokenKind.NORMAL),
        (api.LLAMA_TOKEN_ATTR_BYTE, TokenKind.BYTE),
        (api.LLAMA_TOKEN_ATTR_USER_DEFINED, TokenKind.USER_DEFINED),
        (api.LLAMA_TOKEN_ATTR_CONTROL, TokenKind.CONTROL),
        (api.LLAMA_TOKEN_ATTR_UNKNOWN, TokenKind.UNKNOWN),
        (api.LLAMA_TOKEN_ATTR_UNUSED, TokenKind.UNUSED),
    ):
        kinds[(attributes & flag).astype(bool)] = kind
    return kinds


def _id_or_none(token: int) -> int | None:
    return token if token >= 0 else None


def _metadata(model: ctypes.c_void_p, key: bytes) -> str | None:
    """A metadata entry of any length as text, None if absent."""
    length = api.llama_model_meta_val_str(model, key, ctypes.create_string_buffer(1), 1)
    if length < 0:
        return None
    buffer = ctypes.create_string_buffer(length + 1)
    api.llama_model_meta_val_str(model, key, buffer, length + 1)
    return buffer.value.decode("utf-8", "replace")


def _family(model: ctypes.c_void_p, kind: int) -> str:
    if kind == api.LLAMA_VOCAB_TYPE_SPM:
        return "spm"
    name = _metadata(model, b"tokenizer.ggml.pre") if kind == api.LLAMA_VOCAB_TYPE_BPE else None
    return name or _metadata(model, b"tokenizer.ggml.model") or "unknown"
