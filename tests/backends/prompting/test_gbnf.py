"""Grammars read and followed by bytes: what llama.cpp makes of them, exact counts, refusals that come at once."""

from __future__ import annotations

import ctypes
import re
import time

import llama_cpp
import numpy as np
import pytest

from omnidraft.backends.llama.runtime import begin_call
from omnidraft.backends.prompting.gbnf.machine import NOWHERE, Machine
from omnidraft.backends.prompting.gbnf.program import compile_grammar
from omnidraft.backends.prompting.grammar import Grammar, GrammarError, GrammarState
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

SECONDS = 10  # of the processor, for what takes a fraction of one; unlimited it would be hours


@pytest.fixture(scope="module")
def vocabulary(models) -> Vocabulary:
    return read_gguf_vocabulary(models / "tiny-target-b-f16.gguf")


def takes(rules: str, text: str) -> bool:
    machine = Machine(compile_grammar(rules))
    state = machine.walk(machine.state, text.encode())
    return state != NOWHERE and machine.ended(state)


CHAIN = "\n".join(f"a{i} ::= a{i + 1} | a{i + 1}" for i in range(40)) + '\na40 ::= "x"\nroot ::= a0'
FORKS = "\n".join(f'a{i} ::= a{i + 1} "y" | a{i + 1} "z"' for i in range(40)) + '\na40 ::= "x"\nroot ::= a0'


@pytest.mark.parametrize(("rules", "told"), [
    ('root ::= "' + ")" * 20_000 + '" ' + "(" * 20_000, "nests"),
    ("root ::= [" + ")" * 20_000 + "] " + "(" * 20_000, "nests"),
    ("root ::= # " + ")" * 20_000 + "\n" + "(" * 20_000, "nests"),
    ('root ::= "a"{5,2}', "ends at 2 before it begins at 5"),
    ('root ::= "a"{999999999999999999}', "999,999,999,999,999,999 times"),
    (f'root ::= "a"{{{"9" * 5000}}}', "more often than can be counted"),
    ('root ::= ("a"?){0,1000000}', "may be empty"),
    (FORKS, "too many ways"),
    ("root ::= " + '"a"? ' * 5000, "too many ways"),
    ("root ::= " + " | ".join(f'"{i}"{{1,999999}}' for i in range(2000)), "too large"),
    ('root ::= y root "b" | "a"\ny ::= z\nz ::= "c" | ""', "begins with itself"),
    ("root ::= []", "empty"),
    ('root ::= "\\q"', "backslash"),
    ("root ::= [\\uD800]", "no such character"),
    ("root ::= <think>", "tokens cannot be named"),
    ('root ::= *"a"', "nothing stands before"),
    ('root ::= "a" )', "end of the line"),
    ('root = "a"', "::= is missing"),
    ('root ::= "a', "not closed"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_at_once(rules, told):
    begun = time.process_time()
    with pytest.raises(GrammarError, match=re.escape(told)):
        Machine(compile_grammar(rules))
    assert time.process_time() - begun < SECONDS


def test_a_chain_of_equal_alternatives_has_one_reading():
    begun = time.process_time()
    assert takes(CHAIN, "x")
    assert not takes(CHAIN, "xx")
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("low", [0, 1, 7])
@pytest.mark.parametrize("high", [8, 32, 33, 64, 65, 1023, 1024, 1025, 5000])
def test_counts_are_exact(low, high):
    machine = Machine(compile_grammar(f'root ::= [a-c]{{{low},{high}}} "."'))
    state = machine.state
    for count in range(high + 1):
        assert (machine.step(state, ord(".")) != NOWHERE) == (low <= count)
        state = machine.step(state, ord("b"))
    assert state == NOWHERE


def test_large_counts_cost_little_and_keep_few_readings():
    program = compile_grammar('root ::= "ab"{0,1000000000000}')
    assert len(program.kinds) < 3000
    machine = Machine(program)
    assert machine.ended(machine.walk(machine.state, b"ab" * 3000))
    assert machine.walk(machine.state, b"ab" * 3000 + b"b") == NOWHERE
    assert max(map(len, machine._states)) < 20


def test_work_for_a_token_is_bounded_where_readings_multiply():
    """Each letter doubles the readings: after a dozen it is refused, and until then it is quick."""
    machine = Machine(compile_grammar('root ::= x\nx ::= "a" x "b" | "a" x "c" | ""'))
    assert machine.ended(machine.walk(machine.state, b"aaaabcbc"))
    begun = time.process_time()
    with pytest.raises(GrammarError, match="too many ways"):
        machine.walk(machine.state, b"a" * 40)
    assert time.process_time() - begun < SECONDS


def test_what_is_remembered_stays_bounded_over_a_long_answer(monkeypatch):
    monkeypatch.setattr("omnidraft.backends.prompting.gbnf.machine.MAX_STATES", 50)
    machine = Machine(compile_grammar('root ::= ("(" [a-z]{0,400} ")")*'))
    for text in ("(", *"abcdefgh" * 50, ")") * 3:
        machine.begin_token()
        machine.state = machine.step(machine.state, ord(text))
        assert machine.state != NOWHERE
        assert len(machine._states) <= 52
    assert machine.ended(machine.state)
    machine.state = machine.walk(machine.state, b"(" + b"a" * 400)
    assert machine.step(machine.state, ord("a")) == NOWHERE


@pytest.mark.parametrize("characters", ["[a-z]", "[^a-z]", ".", "[é-ý]", "[\\u0000-\\uFFFF]", "[^日本]", "[^\\]]",
                                        "[a-]", "[\\x41-C]", "[^\\U0001F600]"])  # fmt: skip
def test_classes_take_the_characters_they_name(characters):
    machine = Machine(compile_grammar(f"root ::= {characters}"))
    for sign in map(chr, [1, 9, 10, 31, 45, 65, 67, 68, 90, 91, 93, 97, 122, 127, 128, 0xE9, 0xFD, 0xFE, 0x7FF, 0x800,
                          0x65E5, 0x672C, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]):  # fmt: skip
        state = machine.walk(machine.state, sign.encode())
        assert (state != NOWHERE) == bool(re.fullmatch(characters, sign, re.DOTALL)), (characters, sign)


def test_bytes_that_are_no_text_never_pass():
    machine = Machine(compile_grammar("root ::= .*"))
    bad = (b"\0", b"\xff", b"\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88")
    for data in bad:
        assert machine.walk(machine.state, data) == NOWHERE
    assert not machine.ended(machine.walk(machine.state, b"\xe6\x97"))


class Library:
    """llama.cpp's own sampler, for grammars known to be harmless."""

    def __init__(self, rules: str, vocabulary: Vocabulary) -> None:
        begin_call()
        self._sampler = llama_cpp.llama_sampler_init_grammar(
            vocabulary.encoder.tokenizer.vocab, rules.encode(), b"root"
        )
        assert self._sampler

    def allowed(self, ids: np.ndarray) -> np.ndarray:
        rows = np.zeros(len(ids), np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)]))
        rows["id"] = ids
        data = rows.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        candidates = llama_cpp.llama_token_data_array(data=data, size=len(ids), selected=-1, sorted=False)
        llama_cpp.llama_sampler_apply(self._sampler, ctypes.byref(candidates))
        return rows["logit"] == 0.0

    def accept(self, token: int) -> None:
        llama_cpp.llama_sampler_accept(self._sampler, token)

    def __del__(self) -> None:
        llama_cpp.llama_sampler_free(self._sampler)


JSON = r"""root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize("rules", [
    JSON, "root ::= [^x]+", "root ::= .{3,5}", 'root ::= ("ab"{2,3} | "abc")+ # comment\n', "root ::= [é-ý日 a]*",
    'root ::=\n ( "a" |\n "the" ) rest\nrest ::= " "? [a-z]+ "."', 'root ::= "a"+? [b-d]{2}{2} "\\u00e9\\x41\\n"',
    'root ::= item+\nitem ::= "- " [^\\n]{0,40} "\\n"', "root ::= ([a-z] | [A-Z])* ([0-9] [0-9])?",
])  # fmt: skip
def test_every_token_is_judged_as_llama_cpp_judges_it(vocabulary, rules):
    """Walks of random allowed tokens. Bytes that no text has, which the library lets pass, are left out."""
    random = np.random.default_rng(5)
    never = [max(piece, default=0) >= 0xF5 for piece in vocabulary.pieces]
    ids = np.flatnonzero(vocabulary.ordinary & ~np.array(never))
    ends = np.array(sorted(vocabulary.eog))
    for _ in range(3):
        ours, library = GrammarState(Grammar(rules), vocabulary), Library(rules, vocabulary)
        for _ in range(8):
            allowed = ours.allowed(ids)
            assert (allowed == library.allowed(ids)).all()
            assert ours.allowed(ends).all() == library.allowed(ends).all()
            one_by_one = random.choice(ids, 20)
            assert (ours.allowed(one_by_one) == library.allowed(one_by_one)).all()
            if not allowed.any():
                break
            token = int(random.choice(ids[allowed]))
            ours.accept(token)
            library.accept(token)
