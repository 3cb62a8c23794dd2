"""What a call that the model has to make looks like, for whoever builds a grammar of it.

A call is text in front, then either one JSON value under a schema, or arguments between tags, then text behind. The
engine of grammars decides what to make of it; nothing here knows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.formats.pattern import Gap
from omnidraft.backends.prompting.formats.shapes import ChatFormat, JsonArguments, JsonCalls, NamedCalls, Pattern


@dataclass(frozen=True, slots=True)
class ForcedCall:
    """One way to write a call of one tool: `prefix`, a JSON value that `schema` allows, `suffix`."""

    prefix: str
    schema: Mapping[str, Any]
    suffix: str


def forced_calls(form: ChatFormat, tools: Mapping[str, Any]) -> list[ForcedCall]:
    """A way for each tool (name to schema of its parameters); one of them is to be written.

    Empty where this model writes arguments in another way than as JSON: then the call can only be asked for.
    """
    if form.harmony:
        head = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>"
        return [ForcedCall(head.format(name), schema, "") for name, schema in tools.items()]
    for shape in form.calls:
        before = _written(shape.openings[0])
        suffix = _written(shape.closers[3][:1]) if len(shape.closers) > 3 else ""
        if isinstance(shape.body, JsonCalls):
            return [ForcedCall(before, _object(shape.body, name, schema), suffix) for name, schema in tools.items()]
        if isinstance(shape.body, NamedCalls) and isinstance(shape.body.arguments, JsonArguments):
            heads = {name: before + _written(shape.body.head, name) for name in tools}
            return [ForcedCall(heads[name], schema, suffix) for name, schema in tools.items()]
    return []


def _written(pattern: Pattern, name: str = "") -> str:
    """The pattern as a model may write it; ids are counted from nothing."""
    return "".join(_gap(item, name) if isinstance(item, Gap) else item for item in pattern)


def _gap(gap: Gap, name: str) -> str:
    return {"name": name, "id": "call0", "number": "0"}.get(gap.kind, "")


def _object(body: JsonCalls, name: str, schema: Any) -> dict[str, Any]:
    if body.keyed:
        return _closed({name: schema})
    names = min(body.names, key=lambda path: (len(path), path != ("name",)))
    given = next((path for path in sorted(body.arguments) if path[0] in body.others), ("arguments",))
    found = next((path for path in sorted(body.names) if path[0] in body.others), names)
    if len(found) == 1 and len(given) == 1:
        return _closed({found[0]: {"const": name}, given[0]: schema})
    return _closed({found[0]: _closed({found[-1]: {"const": name}, given[-1]: schema})})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
