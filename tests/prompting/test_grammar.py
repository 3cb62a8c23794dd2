"""Grammars behind `Constraint`: what it lets pass, where it lets an answer end, what it refuses."""

import numpy as np
import pytest

from omnidraft.prompting.grammar import Grammar, gbnf_grammar, json_grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.vocab import TokenKind, Vocabulary


def walk(state: GrammarState, vocabulary: Vocabulary, text: str) -> bool:
    """Say `text`, cut as the tokenizer and the state want it; False where it is refused."""
    data = text.encode()
    while data:
        token = state.only()
        token = vocabulary.encode_bytes(data)[0] if token is None else token
        if not data.startswith(vocabulary.pieces[token]) or not state.allowed(np.array([token]))[0]:
            return False
        state.accept(token)
        data = data[len(vocabulary.pieces[token]) :]
    return True


def test_an_answer_ends_only_where_the_grammar_may(vocabulary):
    state = GrammarState(gbnf_grammar('root ::= "ab" "c"?'), vocabulary)
    ends = np.array(sorted(vocabulary.eog))
    assert not state.allowed(ends).any()
    assert walk(state, vocabulary, "ab")
    assert state.allowed(ends).all()
    assert walk(state, vocabulary, "c")
    assert np.flatnonzero(state.allowed(np.arange(vocabulary.size))).tolist() == ends.tolist()


def test_control_tokens_pass_only_where_they_are_named(vocabulary):
    text = next(text for text, id in vocabulary.controls.items() if id not in vocabulary.eog)
    token = np.array([vocabulary.controls[text]])
    free, named = gbnf_grammar("root ::= [^x]+"), Grammar("start: /[^x]+/ | control0", controls=(text,))
    for grammar, good in ((free, False), (named, True)):
        state = GrammarState(grammar, vocabulary)
        assert state.allowed(token)[0] == state.mask()[token[0]] == good
    silent = np.flatnonzero(np.isin(vocabulary.kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED)))
    others = np.setdiff1d(silent, sorted(vocabulary.eog))
    assert not GrammarState(free, vocabulary).mask()[others].any()


def test_without_a_schema_any_object_passes(vocabulary):
    for text, good in (('{"a": [1, {"b": null}], "c": "d"}', True), ("[1]", False), ('{"a": "b\nc"}', False)):
        assert walk(GrammarState(json_grammar(), vocabulary), vocabulary, text) is good


def test_a_control_token_that_the_vocabulary_lacks_is_spelled(vocabulary):
    text = next(text for text, id in vocabulary.controls.items() if id not in vocabulary.eog)
    grammar = Grammar('start: control0 "a" control1', controls=(text, "[NO_SUCH]"))
    state = GrammarState(grammar, vocabulary)
    ids = state.forced()
    assert ids[0] == vocabulary.controls[text]
    assert vocabulary.decode(ids) == b"a[NO_SUCH]"
    assert ids[-1] == vocabulary.eos
    for token in ids[:-1]:
        state.accept(token)
    assert state.allowed(np.array([vocabulary.eos]))[0]


@pytest.mark.parametrize(("said", "forced"), [
    ("", b"{"), ('{"', b'name"'), ('{"name":"', b""), ('{"name": "Ada", "', b'tags"'),
    ('{"name": "Ada", "tags": ["y', b' z"'),
])  # fmt: skip
def test_what_comes_without_choice_is_told(vocabulary, said, forced):
    schema = {"type": "object", "required": ["name", "tags"], "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"enum": ["y z", "no"]}, "minItems": 1, "maxItems": 1}}}  # fmt: skip
    state = GrammarState(json_grammar(schema), vocabulary)
    assert walk(state, vocabulary, said)
    expected = vocabulary.decode(state.forced())
    assert forced.startswith(expected)  # the last sign may belong to a longer token
    assert len(forced) - len(expected) <= 1
