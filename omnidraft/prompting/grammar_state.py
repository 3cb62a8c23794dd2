"""Where an answer stands in its grammar, over one vocabulary: a decoding `Constraint`.

Two matchers follow it. One knows bytes alone: it judges a few tokens by what they spell, whatever the vocabulary, and
knows what comes next without choice. The other knows the vocabulary and is asked, and told of what was said, only where
the whole of it must be masked. Knows nothing of logits or sampling.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import llguidance
import numpy as np

from omnidraft.errors import GrammarError
from omnidraft.prompting.grammar import (
    END,
    Grammar,
    by_bytes,
    compiled,
    control_name,
    refuse_failed,
    tokenizer,
)
from omnidraft.vocab import Vocabulary

_FEW = 64  # ids up to which asking one by one is cheaper than a mask
_MOST = 32  # tokens that are proposed: a pass has room for 64
_LEFT = "The answer left its grammar."
_TRIED = b"aA0" + bytes(range(33, 127))  # what may follow forced text, the likeliest first


class GrammarState:
    """GrammarError if the grammar is not valid.

    Control tokens are refused even where their text would fit, for they do not spell it, except `grammar.controls`.
    An end of generation is allowed where the grammar may end. Text without choice is cut into tokens as the tokenizer
    cuts it: the model has seen it so, and what it may say is no less.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._ids = tuple(vocabulary.controls.get(text) for text in grammar.controls)
        self._controls = {token: END + 1 + i for i, token in enumerate(self._ids) if token is not None}
        self._named = {name: token for token, name in self._controls.items()}
        self._matcher = by_bytes(grammar, self._ids)
        self._whole: llguidance.LLMatcher | None = None
        self._untold: list[int] = []  # verified tokens that `_whole` does not know of
        self._masked: np.ndarray | None = None
        self._certain = self._begun()

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        """See `Constraint.allowed`."""
        if (only := self.only()) is not None:
            return ids == only
        if len(ids) > _FEW or self._masked is not None:
            return self.mask()[ids]
        return np.fromiter((self._may(int(token)) for token in ids), bool, len(ids))

    def mask(self) -> np.ndarray:
        """See `Constraint.mask`."""
        if self._masked is None:
            self._masked = self._computed()
        return self._masked

    def only(self) -> int | None:
        """See `Constraint.only`."""
        return self._certain[-1] if self._certain else None

    def accept(self, token: int) -> None:
        """See `Constraint.accept`. GrammarError for a token that is not allowed."""
        if self._ends(token):
            return
        if self._certain and self._certain.pop() != token:
            raise GrammarError(_LEFT)
        spelled = self._spelled(token)
        if not spelled or self._matcher.try_consume_tokens(spelled) < len(spelled):
            refuse_failed(self._matcher)
            raise GrammarError(_LEFT)
        self._untold.append(token)
        self._masked = None
        self._certain = self._certain or self._begun()

    def follows(self, data: bytes, end: bool = False) -> bool:
        """See `Constraint.follows`."""
        if not data:
            return not end or self._matcher.is_accepting()
        tokens = [*data, END] if end else list(data)
        return self._matcher.validate_tokens(tokens) == len(tokens)

    def forced(self) -> list[int]:
        """See `Constraint.forced`."""
        ids, ahead = self._certain[::-1], self._matcher.deep_copy()
        for token in ids:
            ahead.consume_tokens(self._spelled(token))
        if ahead.is_stopped() and not ahead.is_error() and self._vocabulary.eos is not None:
            ids.append(self._vocabulary.eos)
        return ids[:_MOST]

    def _begun(self) -> list[int]:
        """The tokens that spell what comes next without choice, the next one last."""
        if not (found := self._matcher.compute_ff_tokens()):
            return []
        ahead = self._matcher.deep_copy()
        ahead.try_consume_tokens(found)
        return self._ids_of(found, ahead)[::-1]

    def _ids_of(self, found: list[int], ahead: llguidance.LLMatcher) -> list[int]:
        """The ids that spell these tokens of the matcher of bytes; `ahead` stands behind them."""
        ids: list[int] = []
        begin = 0
        for at, token in enumerate(found):
            if token > END:
                ids += [*self._vocabulary.encode_bytes(bytes(found[begin:at])), self._named[token]]
                begin = at + 1
        return ids + self._cut(bytes(found[begin:]), ahead)

    def _cut(self, data: bytes, matcher: llguidance.LLMatcher) -> list[int]:
        """Ids that spell `data`, up to where a token may reach beyond it."""
        if not data:
            return []
        following = next((byte for byte in _TRIED if matcher.validate_tokens([byte])), None)
        ids = self._vocabulary.encode_bytes(data + bytes([following] if following is not None else []))
        kept, length = [], 0
        for token in ids:
            length += len(self._vocabulary.pieces[token])
            if length > len(data):
                break
            kept.append(token)
        return kept

    def _ends(self, token: int) -> bool:
        return token in self._vocabulary.eog and token not in self._controls

    def _may(self, token: int) -> bool:
        if self._ends(token):
            return self._matcher.is_accepting()
        spelled = self._spelled(token)
        return bool(spelled) and self._matcher.validate_tokens(spelled) == len(spelled)

    def _spelled(self, token: int) -> list[int]:
        """What a token writes, for the matcher of bytes; nothing for one that may not be written."""
        if token in self._controls:
            return [self._controls[token]]
        return list(self._vocabulary.pieces[token]) if self._vocabulary.ordinary[token] else []

    def _computed(self) -> np.ndarray:
        if self._whole is None:
            self._whole = compiled(self._grammar, self._ids, whole_vocabulary(self._vocabulary), forcing=False)
        if self._whole.try_consume_tokens(self._untold) == len(self._untold):
            self._untold.clear()
        allowed = _bits(self._whole.compute_bitmask())[: self._vocabulary.size]
        refuse_failed(self._whole)
        allowed[[token for token in self._vocabulary.eog if self._ends(token)]] = self._matcher.is_accepting()
        return allowed


def _bits(mask: bytes) -> np.ndarray:
    return np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little").view(bool)


_vocabularies: WeakKeyDictionary[Vocabulary, llguidance.LLTokenizer] = WeakKeyDictionary()
_making = threading.Lock()


def whole_vocabulary(vocabulary: Vocabulary) -> llguidance.LLTokenizer:
    """llguidance's view of a vocabulary, made once (0.4 s for 128,000 tokens). Its end is an id behind all others."""
    with _making:
        if vocabulary not in _vocabularies:
            ordinary = vocabulary.ordinary.tolist()
            pieces = [piece if good else b"" for piece, good in zip(vocabulary.pieces, ordinary, strict=True)]
            for token in vocabulary.controls.values():
                pieces[token] = control_name(token)
            _vocabularies[vocabulary] = tokenizer([*pieces, control_name(vocabulary.size)], vocabulary.size)
        return _vocabularies[vocabulary]


def forget_vocabulary(vocabulary: Vocabulary) -> None:
    """Its model leaves memory, and so does this (40 MB for 152,000 tokens), whoever else still has the vocabulary."""
    with _making:
        _vocabularies.pop(vocabulary, None)
