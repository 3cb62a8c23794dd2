"""Values as models write them: where JSON objects have theirs, what is almost JSON, what a parameter's text means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from omnidraft.prompting.json_schema import referred

CLOSERS = {"[": "]", "(": ")", "{": "}"}
_DECODER = json.JSONDecoder(strict=False)  # models forget to escape the ends of lines
_DEEPEST = 500
_UNSURE = 8  # characters that may be the beginning of a word or of an escaped one


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_end(text: str, at: int) -> int:
    """Where the JSON value that begins at `at` ends; 0 if it may go on, -1 if it is none."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except json.JSONDecodeError as error:
        return 0 if error.msg.startswith("Unterminated") or len(text) - error.pos < _UNSURE else -1
    except RecursionError:
        return -1


def strict(text: str) -> str:
    """JSON in whose strings control characters are escaped, which models forget."""
    return text if is_object(text) else dump(json.loads(text, strict=False))


def is_object(text: str) -> bool:
    """Whether it is one that what goes through its values can descend."""
    try:
        value = json.loads(text, parse_constant=int)  # NaN, which JSON has not, is no int either
    except (ValueError, RecursionError):
        return False
    inner, depth = [value], 0
    while inner and depth <= _DEEPEST:
        values = (each.values() if isinstance(each, dict) else each for each in inner if isinstance(each, (dict, list)))
        inner, depth = [value for each in values for value in each], depth + 1
    return isinstance(value, dict) and not inner


# Values that are almost JSON: Python's literals, bare keys, strings between quotes of a model's own. What models write
# for arguments is respelled as JSON: `{'a': True}`, `{a:<|"|>b<|"|>}`. Nothing is evaluated.


# A string ends at a quote that something follows which may stand behind a value: models forget to escape the others.
LOOSE_STRING = r"""(?P<mark>["'])(?P<text>(?:[^\\]|\\.)*?)(?P=mark)(?=\s*(?:[,)\]}:=]|\Z))"""
_WORD = r"""(?P<word>[^\s,:=\[\](){}'"]+(?:[^,:=\[\](){}\n]*[^\s,:=\[\](){}])?)(?P<key>(?=\s*[:=]))?"""
_SIGN = r"(?P<last>,(?=\s*[\])}]))|(?P<sign>[(=)])"
_RESPELLED = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]", "=": ":"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPES = dict(zip("ntrbf\n0\\'\"/", ["\n", "\t", "\r", "\b", "\f", "", "\0", *"\\'\"/"], strict=True))


def own_string(quote: str) -> str:
    """A pattern of a string between quotes of a model's own, in which nothing is escaped; matches nothing without."""
    return rf"{re.escape(quote)}(?P<own>.*?){re.escape(quote)}" if quote else r"(?P<own>(?!))"


def read_loose(text: str, quote: str = "") -> Any:
    """The value; ValueError if there is none, or more behind it. quote: one besides ' and "."""
    parts = re.compile("|".join([own_string(quote), LOOSE_STRING, _WORD, _SIGN]), re.DOTALL)
    try:
        return json.loads(parts.sub(_respelled, text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _respelled(part: re.Match[str]) -> str:
    if part["own"] is not None:
        return dump(part["own"])
    if part["mark"]:
        text = _ESCAPE.sub(_unescaped, part["text"])
        return dump(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    word = part["word"]
    if word is None:
        return "" if part["last"] else _RESPELLED[part[0]]
    return dump(word) if part["key"] is not None else _RESPELLED.get(word) or _as_written(word)


def _as_written(word: str) -> str:
    """A word that JSON knows as it is, any other as text."""
    try:
        json.loads(word, parse_constant=int)
    except ValueError:
        return dump(word)
    return word


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _ESCAPES.get(found[4], found[0])


# What a parameter's text means: typed by its JSON schema, or by what it looks like where there is none.


_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
ANY, STRING = frozenset(_TYPES.values()), frozenset(("string",))
_DEEPEST_REFERENCES = 16  # references within references


def types_of(schema: Any, root: Any = None, depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema allows, as far as it says; all of them where it does not."""
    root = schema if root is None else root
    if not isinstance(schema, Mapping) or depth > _DEEPEST_REFERENCES:
        return ANY
    if isinstance(schema.get("$ref"), str):
        return types_of(referred(root, schema["$ref"]), root, depth + 1)
    given = schema.get("type")
    found = ANY
    if isinstance(given, str):
        found = frozenset((given,))
    elif isinstance(given, list):
        found = frozenset(kind for kind in given if isinstance(kind, str))
    elif "const" in schema:
        found = frozenset((_TYPES.get(type(schema["const"]), "string"),))
    elif isinstance(schema.get("enum"), list):
        found = frozenset(_TYPES.get(type(value), "string") for value in schema["enum"])
    elif any(name in schema for name in ("minLength", "maxLength", "pattern", "format")):
        found = STRING
    elif "properties" in schema:
        found = frozenset(("object",))
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list):
            found &= frozenset().union(*(types_of(part, root, depth + 1) for part in schema[name]))
    for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
        found &= types_of(part, root, depth + 1)
    return found or ANY


def typed(text: str, types: frozenset[str]) -> Any:
    """The value that `text` spells. Text stays text where only that is allowed, or where nothing else fits."""
    if types == STRING:
        return text
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        value = text
        if text.strip()[:1] in ("{", "[") or text.strip() in ("True", "False", "None"):
            try:
                value = read_loose(text)
            except ValueError:
                return text
    kind = _TYPES.get(type(value), "string")
    fits = kind in types or (kind == "integer" and "number" in types) or (kind == "number" and "integer" in types)
    return value if fits or "string" not in types else text


def type_of(name: str, schema: Any) -> frozenset[str]:
    """The types that a tool's schema allows for one of its parameters."""
    return types_of(property_of(name, schema), schema)


def property_of(name: str, schema: Any) -> Any:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties.get(name) if isinstance(properties, Mapping) else None
