"""What a parameter's text means: typed by its JSON schema, or by what it looks like where there is none; and the object
that parameters make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from omnidraft.backends.prompting.formats.loose import read_loose
from omnidraft.backends.prompting.json_schema import referred

_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
ANY = frozenset(_TYPES.values())
_DEEPEST = 16  # references within references
Say = Callable[[str], None]


def types_of(schema: Any, root: Any = None, depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema allows, as far as it says; all of them where it does not."""
    root = schema if root is None else root
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
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
        found = frozenset(("string",))
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
    if types == {"string"}:
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


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Pairs:
    """Says an object's pairs one after another, with what a tool's schema knows of each."""

    def __init__(self, schema: Any, say: Say) -> None:
        self.say = say
        self._schema = schema if isinstance(schema, Mapping) else {}
        self._count = 0

    def key(self, name: str) -> None:
        self.say(("{" if not self._count else ", ") + dump(name) + ": ")
        self._count += 1

    def types(self, name: str) -> frozenset[str]:
        return types_of(self.schema_of(name), self._schema)

    def schema_of(self, name: str) -> Any:
        properties = self._schema.get("properties")
        return properties.get(name) if isinstance(properties, Mapping) else None

    def close(self) -> None:
        self.say("}" if self._count else "{}")
