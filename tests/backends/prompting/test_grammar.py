"""Grammars behind `Constraint`: what it lets pass, where it lets an answer end, what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from omnidraft.backends.prompting.grammar import Grammar, GrammarError, GrammarState, json_grammar
from omnidraft.vocab import TokenKind, Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary


@pytest.fixture(scope="module")
def vocabulary(models) -> Vocabulary:
    return read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")


def walk(state: GrammarState, vocabulary: Vocabulary, text: str) -> bool:
    for token in vocabulary.encode(text):
        if not state.allowed(np.array([token]))[0]:
            return False
        state.accept(token)
    return True


def takes(rules: str, vocabulary: Vocabulary, text: str) -> bool:
    state = GrammarState(Grammar(rules), vocabulary)
    return walk(state, vocabulary, text) and bool(state.allowed(np.array([vocabulary.eos]))[0])


def test_an_answer_ends_only_where_the_grammar_may(vocabulary):
    state = GrammarState(Grammar('root ::= "ab" "c"?'), vocabulary)
    ends = np.array(sorted(vocabulary.eog))
    assert not state.allowed(ends).any()
    assert walk(state, vocabulary, "ab")
    assert state.allowed(ends).all()
    assert walk(state, vocabulary, "c")
    assert np.flatnonzero(state.allowed(np.arange(vocabulary.size))).tolist() == ends.tolist()


def test_asking_moves_nothing_and_one_by_one_agrees_with_all_at_once(vocabulary):
    state = GrammarState(Grammar("root ::= [a-m ]+"), vocabulary)
    walk(state, vocabulary, "hm")
    whole = state.allowed(np.arange(vocabulary.size))
    assert whole.sum() > 30
    assert [bool(state.allowed(np.array([i]))[0]) for i in range(300)] == whole[:300].tolist()
    assert (state.allowed(np.arange(vocabulary.size)) == whole).all()


def test_control_tokens_pass_only_where_they_are_named(vocabulary):
    text = next(text for text, id in vocabulary.controls.items() if id not in vocabulary.eog)
    token = np.array([vocabulary.controls[text]])
    free, named = "root ::= [^x]+", Grammar("root ::= [^x]+", controls=(text,))
    assert not GrammarState(Grammar(free), vocabulary).allowed(token)[0]
    assert GrammarState(named, vocabulary).allowed(token)[0]
    silent = np.flatnonzero(np.isin(vocabulary.kinds, (TokenKind.CONTROL, TokenKind.UNKNOWN, TokenKind.UNUSED)))
    others = np.setdiff1d(silent, sorted(vocabulary.eog))
    assert not GrammarState(Grammar(free), vocabulary).allowed(others).any()


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "tags"], "properties": {
    "name": {"type": "string"}, "code": {"type": "string", "pattern": "^[A-Z]{2}.$"},
    "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2}},
    "$defs": {"tag": {"enum": ["x", "y z"]}}}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ({"name": "Ada \u00e9 \"q\" \\ \n", "tags": ["x", "y z"]}, True),
        ({"name": "", "tags": []}, True),
        ({"name": "a", "tags": [], "code": "AB\u00e9"}, True),
        ({"name": "a", "tags": [], "code": "A1-"}, False),
        ({"name": "a"}, False),
        ({"name": 1, "tags": []}, False),
        ({"name": "a", "tags": ["z"]}, False),
        ({"name": "a", "tags": ["x", "x", "x"]}, False),
        ({"name": "a", "tags": [], "more": 1}, False),
    ],
)  # fmt: skip
def test_json_that_follows_the_schema_passes_and_other_does_not(vocabulary, value, good):
    assert takes(json_grammar(SCHEMA), vocabulary, json.dumps(value, ensure_ascii=False)) is good


@pytest.mark.parametrize("text", ['{"name": "a\nb", "tags": []}', '{"name": "a", "tags": [], "code": "AB""}'])
def test_strings_hold_nothing_that_json_forbids(vocabulary, text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert not takes(json_grammar(SCHEMA), vocabulary, text)


@pytest.mark.parametrize("rules", ["", "root ::= (", "root ::= root", 'x ::= "a"', "root ::= y", "\0",
                                   "root ::= \ud800",
                                   "root ::= " + "(" * 9999 + '"a"' + ")" * 9999, '"' * 200_000])  # fmt: skip
def test_what_is_no_grammar_is_an_error(vocabulary, rules):
    with pytest.raises(GrammarError):
        GrammarState(Grammar(rules), vocabulary)


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://example.org"}, {"$ref": "#/$defs/no"},
                                    {"anyOf": 7}, {"properties": {"a": True}}, "text"])  # fmt: skip
def test_what_is_no_usable_schema_is_an_error(schema):
    with pytest.raises(GrammarError):
        json_grammar(schema)


def test_without_a_schema_any_object_passes(vocabulary):
    assert takes(json_grammar(), vocabulary, '{"a": [1, {"b": null}], "c": "d"}')
    assert not takes(json_grammar(), vocabulary, "[1]")
