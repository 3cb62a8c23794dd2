"""JSON schemas as grammars: large counts stay exact and cheap, references mean what they name, all in time."""

from __future__ import annotations

import json
import time

import pytest

from omnidraft.backends.prompting.gbnf.machine import NOWHERE, Machine
from omnidraft.backends.prompting.gbnf.program import compile_grammar
from omnidraft.backends.prompting.grammar import GrammarError, json_grammar

SECONDS = 10  # of the processor, for what takes a fraction of one; unlimited it would be hours


def takes(schema, value) -> bool:
    machine = Machine(compile_grammar(json_grammar(schema)))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    state = machine.walk(machine.state, text.encode())
    return state != NOWHERE and machine.ended(state)


def quoted(text: str) -> str:
    return json.dumps(text)


@pytest.mark.parametrize("most", [0, 1, 31, 1000, 1_000_000_000])
def test_a_longest_length_is_exact(most):
    schema = {"type": "string", "maxLength": most}
    begun = time.process_time()
    for length in {0, most - 1, most, most + 1}:
        if 0 <= length <= 2000:
            assert takes(schema, quoted("é" * length)) == (length <= most), length
    assert takes(schema, quoted("é" * 1500)) == (most >= 1500)
    assert time.process_time() - begun < SECONDS


def test_a_shortest_length_is_exact():
    schema = {"type": "string", "minLength": 900}
    assert [takes(schema, quoted("a" * n)) for n in (0, 899, 900, 5000)] == [False, False, True, True]


@pytest.mark.parametrize(("least", "most"), [(0, 600), (1, 600), (600, 600), (0, 0), (0, 1), (3, None)])
def test_numbers_of_items_are_exact(least, most):
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": least}
    schema |= {} if most is None else {"maxItems": most}
    for count in (0, 1, 2, 3, 599, 600, 601):
        assert takes(schema, [7] * count) == (least <= count <= (count if most is None else most)), count
    if most != 0:
        assert not takes(schema, "[7,, 7]")


def test_references_at_the_root_may_come_back():
    parts = {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}
    node = {"type": "object", "properties": parts, "required": ["v"]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    assert takes(schema, {"v": 1, "next": {"v": 2, "next": {"v": 3}}})
    assert not takes(schema, {"v": 1, "next": {"next": {"v": 3}}})
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    assert takes(tree, {"children": [{}, {"children": [{}]}]})
    assert not takes(tree, {"children": [1]})


def test_references_of_one_name_are_not_confused():
    schema = {
        "type": "object", "required": ["p", "q", "r"],
        "properties": {"p": {"$ref": "#/a/x"}, "q": {"$ref": "#/b/x"}, "r": {"$ref": "#/b/string"}},
        "a": {"x": {"type": "integer"}}, "b": {"x": {"type": "boolean"}, "string": {"type": "null"}},
    }  # fmt: skip
    assert takes(schema, {"p": 1, "q": True, "r": None})
    assert not takes(schema, {"p": 1, "q": 1, "r": None})
    assert not takes(schema, {"p": 1, "q": True, "r": "a"})


@pytest.mark.parametrize("value", ["a\nb", 'say "x"', "back\\slash", "é", "日本", "tab\t"])
def test_constants_are_spelled_as_json_spells_them(value):
    assert takes({"const": value}, json.dumps(value, ensure_ascii=False))
    assert takes({"type": "object", "properties": {value: {"const": 1}}, "required": [value]}, {value: 1})
    assert not takes({"const": value}, quoted(value + "x"))


def test_alternatives_of_a_pattern_stay_inside_the_quotes():
    schema = {"type": "string", "pattern": "^a|b$"}
    assert takes(schema, '"a"')
    assert takes(schema, '"b"')
    assert not takes(schema, '"a')


def test_a_property_without_a_name_is_no_root():
    assert takes({"type": "object", "properties": {"": {"type": "integer"}}, "required": [""]}, {"": 5})


MANY = {"$ref": "#/$defs/d 0", "$defs": {
    f"d {i}": {"type": "array", "items": [{"$ref": f"#/$defs/d {i + 1}"}, {"$ref": f"#/$defs/d {i + 1}"}]}
    for i in range(40)} | {"d 40": {"type": "null"}}}  # fmt: skip
DEEP: dict = {"type": "null"}
for _ in range(3000):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(("schema", "told"), [
    ({"type": "string", "pattern": "^a{999999999999999999}$"}, "999,999,999,999,999,999 times"),
    ({"type": "string", "pattern": f"^a{{{'9' * 10_000}}}$"}, "cannot be turned into a grammar"),
    ({"type": "string", "minLength": 10**9}, "1,000,000,000 times"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 10**9}, "times"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2}, "more than its maxItems"),
    ({"type": "string", "minLength": -1}, "no count"),
    ({"type": "string", "maxLength": 10**400}, "no count"),
    ({"type": "string", "maxLength": True}, "no count"),
    ({"type": "string", "maxLength": "9"}, "no count"),
    ({"$ref": "#"}, "begins with itself"),
    ({"$ref": "#/no"}, "leads nowhere"),
    ({"$ref": 5}, "leads out of the schema"),
    (DEEP, "nested too deeply"),
    ({"enum": ["x" * 100] * 5000}, "too large"),
    ({"properties": {f"p{i}": {"type": "null"} for i in range(3000)}}, "nested too deeply|too large"),
])  # fmt: skip
def test_what_cannot_be_expressed_is_said_at_once(schema, told):
    begun = time.process_time()
    with pytest.raises(GrammarError, match=told):
        compile_grammar(json_grammar(schema))
    assert time.process_time() - begun < SECONDS


def test_definitions_that_name_each_other_twice_are_written_once():
    begun = time.process_time()
    assert len(compile_grammar(json_grammar(MANY)).kinds) < 1000
    assert time.process_time() - begun < SECONDS
