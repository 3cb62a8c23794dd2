"""Refuses JSON schemas that nothing finite follows, as an object that requires another of its kind.

A grammar has a next token for ever there. Only what keeps every value from ending is looked at; that a schema can be
followed at all is not said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from omnidraft.errors import GrammarError

Schema = dict[str, Any]


def refuse_endless(root: Schema) -> None:
    """GrammarError if no value of `root` ends."""
    waiting: dict[int, list[Schema]] = {id(root): []}  # for a schema those that are decided by it
    parts = [root]
    for part in parts:
        for needed in _needed(root, part):
            if id(needed) not in waiting:
                parts.append(needed)
            waiting.setdefault(id(needed), []).append(part)
    finite: set[int] = set()
    left = deque(reversed(parts))
    while left and id(root) not in finite:
        part = left.popleft()
        if id(part) not in finite and _ends(root, part, finite):
            finite.add(id(part))
            left.extend(waiting[id(part)])
    if id(root) not in finite:
        raise GrammarError("This JSON schema never ends: what it requires requires the same again.")


def _needed(root: Schema, part: Schema) -> Iterator[Schema]:
    """The schemas that decide whether a value of `part` ends."""
    for word in ("allOf", "anyOf", "oneOf"):
        yield from filter(_is_schema, _list(part, word))
    yield from filter(_is_schema, [referred(root, part.get("$ref")), *_members(part)])


def _ends(root: Schema, part: Schema, finite: set[int]) -> bool:
    """Whether some value of `part` ends, given that those of the schemas in `finite` do."""

    def good(schemas: Iterable[Any]) -> list[bool]:
        return [not _is_schema(schema) or id(schema) in finite for schema in schemas]

    if "enum" in part or "const" in part:
        return True
    choices = [good(_list(part, word)) for word in ("anyOf", "oneOf")]
    whole = [*_list(part, "allOf"), referred(root, part.get("$ref")), *_members(part)]
    return all(good(whole)) and all(any(each) for each in choices if each)


def _members(part: Schema) -> list[Any]:
    """Schemas of what every value has inside it: nothing, if it need be no object or no list."""
    if part.get("type") == "object":
        named, others = part.get("properties"), part.get("additionalProperties")
        properties = named if isinstance(named, dict) else {}
        return [properties.get(name, others) for name in _list(part, "required") if isinstance(name, str)]
    least = part.get("minItems")
    if part.get("type") != "array" or not isinstance(least, int) or least < 1:
        return []
    first = _list(part, "prefixItems") or _list(part, "items")
    return [*first[:least], *([part.get("items")] if least > len(first) else [])]


def referred(root: Any, name: Any) -> Any:
    """The schema that a reference (`$ref`) names; None for none, or one that cannot be found."""
    if not isinstance(name, str) or not name.startswith("#"):
        return None
    found: Any = root
    for step in unquote(name).lstrip("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(step)] if step.isdecimal() and int(step) < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _list(part: Schema, word: str) -> list[Any]:
    value = part.get(word)
    return value if isinstance(value, list) else []


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict)
