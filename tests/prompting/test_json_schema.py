"""JSON schemas as grammars: large counts stay exact and cheap, references mean what they name, all in time."""

import contextlib
import json
import time
from pathlib import Path

import pytest

from omnidraft.errors import GrammarError
from omnidraft.prompting.grammar import check_grammar, gbnf_grammar, json_grammar, unkept
from omnidraft.prompting.json_schema import broken
from tests.prompting import following

SECONDS = 10  # of the processor, for what takes a fraction of one; unlimited it would be hours


def takes(schema, value) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return following.takes(json_grammar(schema), text)


def quoted(text: str) -> str:
    return json.dumps(text)


@pytest.mark.parametrize("most", [0, 1, 31, 1000, 1_000_000_000])
def test_lengths_are_exact(most):
    schema = {"type": "string", "maxLength": most}
    begun = time.process_time()
    for length in {0, most - 1, most, most + 1}:
        if 0 <= length <= 2000:
            assert takes(schema, quoted("é" * length)) == (length <= most), length
    assert takes(schema, quoted("é" * 1500)) == (most >= 1500)
    assert time.process_time() - begun < SECONDS
    least = {"type": "string", "minLength": 900}
    assert [takes(least, quoted("a" * n)) for n in (0, 899, 900, 5000)] == [False, False, True, True]


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


DEEP: dict = {"type": "null"}
for _ in range(3000):
    DEEP = {"type": "array", "items": DEEP}
WIDE: dict = {"type": "string"}
for _ in range(17):
    WIDE = {"type": "object", "properties": {"a": WIDE, "b": WIDE}}


@pytest.mark.parametrize(("pattern", "good", "bad"), [
    (r"^\d{3}-\d{4}$", "555-1234", "5551234"), (r"^[\w.+-]+@[\w-]+\.[a-z]+$", "a.b@c-d.org", "a@b"),
    (r"^\/a\/\-\_\@$", "/a/-_@", "a"), (r"^\x41\u00e9$", "A\u00e9", "Ae"),
    (r'^"\\"$', '"\\"', '""'), (r"^\p{Lu}+$", "\u00c4B", "a"), ("^a|b$", "b", "c"),
])  # fmt: skip
def test_a_pattern_may_have_escapes(pattern, good, bad):
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}, "required": ["x"]}
    assert takes(schema, {"x": good})
    assert not takes(schema, {"x": bad})


@pytest.mark.parametrize(("schema", "told"), [
    ({"type": "string", "pattern": "^a{999999999999999999}$"}, "decimal literal invalid"),
    ({"type": "string", "pattern": "^[z-a]$"}, "regex parse error: invalid character class range"),
    ({"type": "string", "pattern": "^(?!x)"}, r"look-behind, is not supported, in \^\(\?!x\)"),
    ({"properties": {"a": {"pattern": "["}, "b": {"pattern": "^a$"}}}, r"unclosed character class, in \[\."),
    ({"type": "string", "minLength": 10**9}, "minLength of 1,000,000,000"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 10**9}, "minItems of 1,000,000,000"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 3, "maxItems": 2}, "Unsatisfiable"),
    ({"type": "string", "minLength": -1}, "turned into a grammar"),
    ({"type": "string", "maxLength": 10**400}, "turned into a grammar"),
    ({"type": "string", "maxLength": True}, "turned into a grammar"),
    ({"type": "string", "maxLength": "9"}, "turned into a grammar"),
    ({"type": "nonsense"}, "Invalid type"),
    ({"anyOf": 7}, "anyOf must be an array"),
    ({"$ref": "#"}, "never ends"),
    ({"const": -(2**63)}, "a number below"),
    ({"$ref": "#/odd", "odd": {"enum": [1, {"a": [-(2**63) + 100]}]}}, "a number below"),
    ({"type": "integer", "minimum": -1e308, "maximum": -1e19}, "a number below"),
    ({"properties": {"minimum": {"const": -(2**63)}}}, "a number below"),
    ({"const": {"minimum": -(2**63)}}, "a number below"),
    ({"$ref": "#/no"}, "does not exist"),
    ({"$ref": 5}, "turned into a grammar"),
    ({"$ref": "https://example.org/x.json"}, "turned into a grammar"),
    ("text", "must be an object"),
    (DEEP, "nested too deeply"),
    ({"const": DEEP}, "nested too deeply"),
    ({"enum": ["x" * 100 + str(i) for i in range(11_000)]}, "longer than 1.0 MB"),
    (WIDE, "longer than 1.0 MB"),
    ({"properties": {f"p{i}": {"type": "null"} for i in range(3000)}}, "too big"),
])  # fmt: skip
def test_what_cannot_be_expressed_is_said_at_once(schema, told):
    begun = time.process_time()
    with pytest.raises(GrammarError, match=told):
        check_grammar(json_grammar(schema))
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("names", [["$ref"], ["type", "items", "$ref"], ["type", "properties", "p", "$ref"]])
def test_chains_of_references_end_no_process(names):
    """Thousands of definitions each of which leads to the next; compiled in this thread they overrun its stack."""

    def link(i: int):
        target = f"#/$defs/d{i}"
        if len(names) == 1:
            return {"$ref": target}
        inner = {"$ref": target}
        return {"type": "array", "items": inner} if "items" in names else {"type": "object", "properties": {"p": inner}}

    schema = {**link(0), "$defs": {f"d{i}": link(i + 1) for i in range(6000)} | {"d6000": {"type": "null"}}}
    begun = time.process_time()
    with contextlib.suppress(GrammarError):
        assert not following.takes(json_grammar(schema), "1")
    assert time.process_time() - begun < SECONDS


CLOSED = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
PARTS = [{"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]} for name in "ab"]


@pytest.mark.parametrize(("schema", "value", "good"), [
    (CLOSED, {"a": {"b": [1]}}, True),
    (CLOSED, {"c": 1}, False),
    (CLOSED, {"a": {"c": 1}}, False),
    ({**CLOSED, "additionalProperties": True}, {"c": 1}, True),
    ({**CLOSED, "additionalProperties": True}, {"a": {"c": 1}}, False),
    ({"anyOf": PARTS}, {"a": 1}, True),
    ({"anyOf": PARTS}, {"a": 1, "b": 1}, False),
    ({"allOf": PARTS}, {"a": 1, "b": 1}, True),
    ({**PARTS[0], "required": ["a", "c"]}, {"a": 1, "c": 2}, True),
])  # fmt: skip
def test_objects_hold_what_they_name_unless_the_schema_says_otherwise(schema, value, good):
    assert takes(schema, value) is good


def test_white_space_is_that_of_programs_and_no_more():
    value = {"a": [1, {"b": "c"}], "d": {}}
    for indent in (None, 0, 2, 4, "\t"):
        assert takes({"type": "object"}, json.dumps(value, indent=indent))
    assert takes({"type": "object"}, json.dumps(value, separators=(",", ":")))
    assert not takes({"type": "object"}, '{"a":  1}')
    assert not takes({"type": "object"}, '{"a":\n\n1}')


def test_strings_that_llama_cpp_lets_pass_pass():
    """Its table, but for what it only does because its rules cannot count or tell types that nobody named."""
    cases = json.loads((Path(__file__).parent / "llama_cpp_strings.json").read_text(encoding="utf-8"))["cases"]
    right: dict[str, list[bool]] = {"schema": [], "grammar": []}
    for case in cases:
        kind = "schema" if "schema" in case else "grammar"
        grammar = json_grammar(case["schema"]) if kind == "schema" else gbnf_grammar(case["grammar"])
        for expected in ("pass", "fail"):
            right[kind] += [following.takes(grammar, text) == (expected == "pass") for text in case[expected]]
    assert len(right["schema"]) == 248
    assert sum(right["schema"]) >= 245
    assert len(right["grammar"]) == 119
    assert all(right["grammar"])


UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
BEYOND = [  # a schema, what of it no grammar holds, a value that breaks it
    (UNIQUE, ["uniqueItems at #"], [1, 1]),
    ({"type": "array", "contains": {"const": 1}, "minContains": 2}, ["contains at #", "minContains at #"], [1, 2]),
    ({"type": "object", "propertyNames": {"maxLength": 2}}, ["propertyNames at #"], {"long": 1}),
    ({"not": {"type": "string"}}, ["not at #"], "a"),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"],
      "if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}}, ["if at #", "then at #"], {"a": 1}),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, ["dependentRequired at #"], {"a": 1}),
    ({"type": "object", "properties": {"a/b": {"anyOf": [{"type": "null"}, UNIQUE]}}},
     ["uniqueItems at #/properties/a/b/anyOf/1"], {"a/b": [2, 2]}),
    ({"$defs": {"x": UNIQUE}, "$ref": "#/$defs/x"}, ["uniqueItems at #/$defs/x"], [3, 3]),
    ({"oneOf": [{"type": "integer", "minimum": 1}, {"type": "integer", "maximum": 5}]}, ["oneOf at #"], 3),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "places", "value"), BEYOND)
def test_what_no_grammar_holds_is_named_with_its_place_and_found_in_the_end(schema, places, value):
    assert sorted(unkept(schema)) == sorted(places)
    assert takes(schema, json.dumps(value))  # nothing else stops it
    told = broken(value, schema)
    assert any(place.partition(" ")[0] in told for place in [*places, "anyOf"]), told


@pytest.mark.parametrize("schema", [{"type": "string", "format": "isbn"}, {"type": "string", "contentMediaType": "x/y"},
                                    {"type": "string", "contentEncoding": "quoted-printable"}])  # fmt: skip
def test_so_is_what_nobody_can_look_at(schema):
    assert unkept(schema) == [f"{list(schema)[-1]} at #"]


KEPT = [  # a schema, a value that is valid, one that is not and is not taken
    ({**UNIQUE, "uniqueItems": False}, [1, 1], ["a"]),
    ({"type": "string", "contentEncoding": "base64"}, "aGk=", "a?"),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    ({"type": "array", "items": {"type": "integer"}, "minContains": 2}, [1], ["a"]),
    ({"type": "integer", "if": {"minimum": 3}}, 1, "a"),
    ({"type": "string", "format": "date"}, "2024-02-29", "yesterday"),
    ({"type": "object", "properties": {"not": {"type": "integer"}}}, {"not": 1}, {"not": "a"}),
    ({"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}, {"a": 1, "b": 2}, {"a": 1}),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), KEPT)
def test_what_a_grammar_can_hold_it_holds(schema, valid, invalid):
    assert unkept(schema) == []
    assert takes(schema, json.dumps(valid))
    assert not takes(schema, json.dumps(invalid))
    assert broken(valid, schema) is None


def test_a_schema_that_makes_no_sense_breaks_no_check():
    assert broken(1, {"$ref": "#"}) == "a schema that cannot be checked"
    assert broken(1, {"$ref": "https://example.org/x.json"}) == "a schema that cannot be checked"
