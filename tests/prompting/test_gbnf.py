"""GBNF as llguidance follows it: what llama.cpp makes of it, exact counts, refusals that come at once."""

import ctypes
import re
import time

import llama_cpp
import numpy as np
import pytest

from omnidraft.backends.llama.runtime import begin_call
from omnidraft.errors import GrammarError
from omnidraft.prompting.grammar import check_grammar, gbnf_grammar
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.vocab import Vocabulary
from tests.prompting.following import takes

SECONDS = 10  # of the processor, for what takes a fraction of one; unlimited it would be hours


CHAIN = "\n".join(f"a{i} ::= a{i + 1} | a{i + 1}" for i in range(40)) + '\na40 ::= "x"\nroot ::= a0'
LONG = "\n".join(f'a{i} ::= "(" a{i + 1} ")" | root | "x"' for i in range(2000)) + '\na2000 ::= "x"\nroot ::= "." a0'


@pytest.mark.parametrize(("rules", "told"), [
    ('root ::= "' + ")" * 20_000 + '" ' + "(" * 20_000, "nests"),
    ("root ::= # " + ")" * 20_000 + "\n" + "(" * 20_000, "nests"),
    ('root ::= "a"{5,2}', "ends at 2 before it begins at 5"),
    ('root ::= "a"{999999999999999999}', "999,999,999,999,999,999 times"),
    (f'root ::= "a"{{{"9" * 5000}}}', "more often than can be counted"),
    ("root ::= " + " | ".join(f'"{i}"{{1,999999}} root' for i in range(2000)) + ' | "a"', "too big"),
    ("root ::= root", "never ends"),
    ('root ::= "a" root', "never ends"),
    ('root ::= "a" | x\nx ::= "b" y\ny ::= "c" x', "never ends"),
    ("root ::= []", "empty"),
    ("root ::= [z-a]", "z-a runs backwards"),
    ('root ::= "\\q"', "backslash"),
    ("root ::= [\\uD800]", "no such character"),
    ("root ::= <think>", "tokens cannot be named"),
    ('root ::= *"a"', "nothing stands before"),
    ('root ::= "a" )', "was not opened"),
    ('root ::= ("a"', "not closed"),
    ('root = "a"', "::= is missing"),
    ('root ::= "a', "not closed"),
    ('root ::= "a"\nroot ::= "b"', "there twice"),
    ('root ::= "a"{0,9999999}', "allowed 9,999,999 times"),
    ("root ::= x", "no rule named x"),
])  # fmt: skip
def test_what_cannot_be_followed_is_refused_at_once(rules, told):
    begun = time.process_time()
    with pytest.raises(GrammarError, match=re.escape(told)):
        check_grammar(gbnf_grammar(rules))
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize(("rules", "good", "bad"), [
    (CHAIN, "x", "xx"),
    (LONG, ".((.x))", ".(("),
    ('root ::= ("a"?){0,1000000}', "a" * 500, "ab"),
    ('root ::= x\nx ::= "a" x "b" | "a" x "c" | ""', "aaaabcbc", "aaab"),
    ('root ::= "a" | root "a"', "a" * 500, "ab"),
    ('root ::= root root | "a"', "a" * 200, "ab"),
    ('root ::= y root "b" | "a"\ny ::= z\nz ::= "c" | ""', "ccabb", "ccac"),
    ('root ::= "ab"{2,3} | "abc" "d"', "abcd", "abc"),
    ('root ::= [a-z]+ "x" y?\ny ::= "(" y ")" | ""', "abxx(())", "ab"),
    ('Root ::= "a"\nroot ::= Root "b"', "ab", "a"),
])  # fmt: skip
def test_large_and_ambiguous_grammars_are_followed_in_time(rules, good, bad):
    begun = time.process_time()
    assert takes(gbnf_grammar(rules), good)
    assert not takes(gbnf_grammar(rules), bad)
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("rest", ["", " (root | [d-e])"])  # a regular grammar, and one that is not
@pytest.mark.parametrize(("low", "high"), [(0, 8), (7, 33), (1, 1025), (7, 3000)])
def test_counts_are_exact(low, high, rest):
    grammar = gbnf_grammar(f'root ::= [a-c]{{{low},{high}}} "."{rest}')
    end = "d" if rest else ""
    for count in {0, 1, low - 1, low, high - 1, high, high + 1} - {-1}:
        assert takes(grammar, "b" * count + "." + end) == (low <= count <= high)


@pytest.mark.parametrize("characters", ["[a-z]", "[^a-z]", ".", "[é-ý]", "[\\u0000-\\uFFFF]", "[^日本]", "[^\\]]",
                                        "[a-]", "[\\x41-C]", "[^\\U0001F600]"])  # fmt: skip
@pytest.mark.parametrize("recursive", [False, True])
def test_classes_take_the_characters_they_name(characters, recursive):
    grammar = gbnf_grammar(f"root ::= {characters}" + (' | "((" root' if recursive else ""))
    for sign in map(chr, [1, 9, 10, 31, 45, 65, 67, 68, 90, 91, 93, 97, 122, 127, 128, 0xE9, 0xFD, 0xFE, 0x7FF, 0x800,
                          0x65E5, 0x672C, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]):  # fmt: skip
        assert takes(grammar, sign) == bool(re.fullmatch(characters, sign, re.DOTALL)), (characters, sign)


class Library:
    """llama.cpp's own sampler, for grammars known to be harmless."""

    def __init__(self, rules: str, vocabulary: Vocabulary) -> None:
        begin_call()
        self._sampler = llama_cpp.llama_sampler_init_grammar(
            vocabulary.encoder._tokenizer._vocab, rules.encode(), b"root"
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
        ours, library = GrammarState(gbnf_grammar(rules), vocabulary), Library(rules, vocabulary)
        for _ in range(8):
            allowed = library.allowed(ids)
            assert ours.allowed(ends).all() == library.allowed(ends).all()
            few = random.choice(ids, 20)
            if (only := ours.only()) is None:
                assert (ours.mask()[ids] == allowed).all()
                assert (ours.allowed(few) == library.allowed(few)).all()
            else:  # cut as the tokenizer cuts it
                assert ours.allowed(ids).tolist() == (ids == only).tolist()
                assert library.allowed(np.array([only])).all()
                allowed = ids == only
            if not allowed.any():
                break
            token = int(random.choice(ids[allowed]))
            ours.accept(token)
            library.accept(token)
