"""What an answer must follow: a grammar in GBNF over one vocabulary, as a decoding `Constraint`.

gbnf/ reads grammars and follows bytes; here bytes become tokens, one by one or the whole vocabulary at once. Works
alike for every vocabulary, whatever file it came from. Knows nothing of logits or sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from omnidraft.backends.prompting.gbnf.limits import GrammarError
from omnidraft.backends.prompting.gbnf.machine import NOWHERE, Machine
from omnidraft.backends.prompting.gbnf.program import compile_grammar
from omnidraft.backends.prompting.json_schema import json_grammar, literal
from omnidraft.vocab import Vocabulary

__all__ = ["Grammar", "GrammarError", "GrammarState", "check_grammar", "json_grammar", "literal"]

_FEW = 512  # ids up to which asking one by one is cheaper than all at once
_MASKS = 32  # answers about the whole vocabulary that are kept


@dataclass(frozen=True, slots=True)
class Grammar:
    """text: GBNF with a rule `root`; controls: control tokens (as text) that it may write besides plain ones."""

    text: str
    controls: tuple[str, ...] = ()


def check_grammar(text: str) -> None:
    """GrammarError for what is no grammar, or beyond the limits."""
    Machine(compile_grammar(text))


class GrammarState:
    """Where the answer stands in a grammar; GrammarError if it is not valid.

    Control tokens are refused even where their text would fit, for they do not spell it, except `grammar.controls`.
    An end of generation is allowed where the grammar may end.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._machine = Machine(compile_grammar(grammar.text))
        self._vocabulary = vocabulary
        self._extra = {
            token: text.encode() for text in grammar.controls if (token := vocabulary.controls.get(text)) is not None
        }
        self._masks: dict[int, np.ndarray] = {}

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        """See `Constraint.allowed`. 0.1 s for 150,000 ids inside a string, once; a microsecond for one."""
        self._begin()
        if len(ids) > _FEW or self._machine.state in self._masks:
            return self._mask()[ids]
        return np.fromiter((self._may(int(token)) for token in ids), bool, len(ids))

    def accept(self, token: int) -> None:
        """See `Constraint.accept`. GrammarError for a token that is not allowed."""
        self._begin()
        if token in self._vocabulary.eog and token not in self._extra:
            return
        after = self._machine.walk(self._machine.state, self._bytes(token))
        if after == NOWHERE:
            raise GrammarError("The answer left its grammar.")
        self._machine.state = after

    def _begin(self) -> None:
        if self._machine.begin_token():
            self._masks.clear()

    def _may(self, token: int) -> bool:
        machine = self._machine
        if token in self._vocabulary.eog and token not in self._extra:
            return machine.ended(machine.state)
        data = self._bytes(token)
        return bool(data) and machine.walk(machine.state, data) != NOWHERE

    def _bytes(self, token: int) -> bytes:
        """What a token writes; nothing for one that may not be written."""
        if token in self._extra:
            return self._extra[token]
        return self._vocabulary.pieces[token] if self._vocabulary.ordinary[token] else b""

    def _mask(self) -> np.ndarray:
        """(size,) bool of the whole vocabulary."""
        state = self._machine.state
        if state not in self._masks:
            if len(self._masks) >= _MASKS:
                self._masks.clear()
            self._masks[state] = self._make_mask(state)
        return self._masks[state]

    def _make_mask(self, state: int) -> np.ndarray:
        allowed = _spelling(self._vocabulary).follow(self._machine, state)
        for token in (*self._vocabulary.eog, *self._extra):
            allowed[token] = self._may(token)
        return allowed


class _Spelling:
    """The bytes of all ordinary tokens in one array, to follow them side by side."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        pieces = [piece if good else b"" for piece, good in zip(vocabulary.pieces, vocabulary.ordinary, strict=True)]
        self._lengths = np.array([len(piece) for piece in pieces])
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        self._bytes = np.frombuffer(b"".join(pieces), np.uint8)

    def follow(self, machine: Machine, state: int) -> np.ndarray:
        """(size,) bool: whether a token's bytes may come behind `state`."""
        states = np.where(self._lengths > 0, state, NOWHERE)
        tokens, place = np.flatnonzero(states != NOWHERE), 0
        while len(tokens):
            # Tokens that stand in the same state before the same byte are one step.
            keys = states[tokens] << 8 | self._bytes[self._starts[tokens] + place]
            different, which = np.unique(keys, return_inverse=True)
            steps = np.array([machine.step(key >> 8, key & 255) for key in different.tolist()])
            states[tokens] = steps[which]
            place += 1
            tokens = tokens[(states[tokens] != NOWHERE) & (self._lengths[tokens] > place)]
        return states != NOWHERE


_spellings: WeakKeyDictionary[Vocabulary, _Spelling] = WeakKeyDictionary()


def _spelling(vocabulary: Vocabulary) -> _Spelling:
    if vocabulary not in _spellings:
        _spellings[vocabulary] = _Spelling(vocabulary)
    return _spellings[vocabulary]
