"""Grammars in GBNF, run by llama.cpp's own grammar sampler over one vocabulary, and JSON schemas turned into them.

A `LlamaGrammar` is a decoding `Constraint`. It reads the vocabulary apart from any loaded model, so it lives as long
as the vocabulary does. It knows nothing of logits or sampling.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import llama_cpp
import numpy as np
from llama_cpp import llama_grammar

from omnidraft.backends.llama_runtime import begin_call
from omnidraft.errors import OmniDraftError
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import LlamaTokenizer

MAX_LENGTH = 1 << 17  # bytes
_MAX_NESTING = 500  # brackets: the parser descends into each
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data
_LOOSE, _STRICT = r'[^"\\] |', r'[^"\\\x7F\x00-\x1F] |'
_LOOSE_DOT, _STRICT_DOT = r"dot ::= [^\x0A\x0D]", r'dot ::= [^"\\\x7F\x00-\x1F]'
_ANY_OBJECT = llama_grammar.JSON_GBNF


class GrammarError(OmniDraftError):
    """A grammar or schema that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """text: GBNF with a rule `root`; controls: control tokens (as text) that it may write besides plain ones."""

    text: str
    controls: tuple[str, ...] = ()


class LlamaGrammar:
    """Where the answer stands in a grammar. Close it, or let it be collected; GrammarError if it is not valid.

    Control tokens are refused even where their text would fit, for they do not spell it, except `grammar.controls`.
    An end of generation is allowed where the grammar may end.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._sampler = None
        self._tokenizer = _tokenizer(vocabulary)  # keeps the library's vocabulary alive
        self._usable = vocabulary.ordinary.copy()
        self._usable[list(vocabulary.eog)] = True
        for text in grammar.controls:
            if (token := vocabulary.controls.get(text)) is not None:
                self._usable[token] = True
        self._usable[_false_ends(vocabulary)] = False
        self._buffer = np.zeros(vocabulary.size, _CANDIDATE)
        check_grammar(grammar.text)
        begin_call()
        self._sampler = llama_cpp.llama_sampler_init_grammar(self._tokenizer.vocab, grammar.text.encode(), b"root")
        if not self._sampler:
            raise GrammarError("The grammar is not valid GBNF with a rule named root that does not begin with itself.")

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        """See `Constraint.allowed`. A quarter of a second for 150,000 ids inside a string, 0.03 ms for one."""
        kept = self._usable[ids]
        asked = np.flatnonzero(kept)
        part = self._buffer[: len(asked)]
        part["id"] = ids[asked]
        part["logit"] = 0.0
        data = part.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        candidates = llama_cpp.llama_token_data_array(data=data, size=len(asked), selected=-1, sorted=False)
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        kept[asked] = part["logit"] == 0.0
        return kept

    def accept(self, token: int) -> None:
        # The library ends the process where a token does not fit; `allowed` was asked before.
        llama_cpp.llama_sampler_accept(self._sampler, token)

    def close(self) -> None:
        """Free the library's state. Harmless when repeated."""
        if self._sampler:
            llama_cpp.llama_sampler_free(self._sampler)
            self._sampler = None

    def __del__(self) -> None:
        self.close()


_ends: WeakKeyDictionary[Vocabulary, list[int]] = WeakKeyDictionary()


def _false_ends(vocabulary: Vocabulary) -> list[int]:
    """Tokens that llama.cpp takes for ends and we for text: allowed where they end nothing, so never."""
    if vocabulary not in _ends:
        vocab, ordinary = _tokenizer(vocabulary).vocab, np.flatnonzero(vocabulary.ordinary).tolist()
        _ends[vocabulary] = [token for token in ordinary if llama_cpp.llama_vocab_is_eog(vocab, token)]
    return _ends[vocabulary]


def _tokenizer(vocabulary: Vocabulary) -> LlamaTokenizer:
    tokenizer = vocabulary.encoder.tokenizer
    if not isinstance(tokenizer, LlamaTokenizer):
        raise GrammarError("Grammars need a model in a GGUF file; this one is a Hugging Face folder.")
    return tokenizer


def check_grammar(text: str) -> None:
    """GrammarError for a text that the library's parser should not be given."""
    if not text.strip():
        raise GrammarError("The grammar is empty.")
    if len(text.encode("utf-8", "replace")) > MAX_LENGTH:
        raise GrammarError(f"The grammar is longer than {MAX_LENGTH // 1024} KB.")
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise GrammarError("The grammar holds characters that no text can have.")
    if text.count("(") > _MAX_NESTING and _nesting(text) > _MAX_NESTING:
        raise GrammarError(f"The grammar nests more than {_MAX_NESTING} brackets.")


def _nesting(text: str) -> int:
    steps = [{"(": 1, ")": -1}.get(c, 0) for c in text]
    return int(np.cumsum(steps).max())


def json_grammar(schema: Any = None) -> str:
    """GBNF for JSON that follows `schema` (a JSON schema as Python values), or for any JSON object without one.

    Structure, types, enumerations, lengths, patterns and references are enforced; bounds of numbers are not.
    """
    if schema is None or schema == {}:
        return _ANY_OBJECT
    if not isinstance(schema, dict):
        raise GrammarError("A JSON schema must be an object.")
    try:
        rules = llama_grammar.json_schema_to_gbnf(json.dumps(schema))
    except (AssertionError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise GrammarError(f"This JSON schema cannot be turned into a grammar: {reason}.") from None
    # The converter lets raw line breaks into strings and, where a pattern has a dot, quotes: JSON has neither.
    return rules.replace("char ::= " + _LOOSE, "char ::= " + _STRICT).replace(_LOOSE_DOT, _STRICT_DOT)


def literal(text: str) -> str:
    """`text` as a GBNF string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
