"""Reads one call, from what opens it on: its name, which must be a tool's, and its arguments. A call is read whole, and
read again as long as it is `Held`. Nothing of it is kept between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.prompting.formats.arguments import (
    Held,
    Parsed,
    code_arguments,
    json_arguments,
    loose_arguments,
    tag_arguments,
)
from omnidraft.prompting.formats.chat_format import (
    Call,
    CallShape,
    CodeArguments,
    JsonCalls,
    LooseArguments,
    NamedCalls,
    TagArguments,
)
from omnidraft.prompting.formats.json_values import Path, escaped, is_object, members
from omnidraft.prompting.formats.pattern import MORE, Match, Pattern, match, skip_space

# Some models write code for an interpreter as it stands, to the answer's end. After Meta's description of the code
# interpreter of Llama 3.1 and later (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/) and MeetKai's
# of functionary (https://github.com/MeetKai/functionary).
CODE_TOOLS = ("python", "ipython", "code_interpreter")


def code_parameter(name: str, schema: Any) -> str | None:
    """The parameter that takes the code, if this is a tool that runs any: its only one, or `code`."""
    properties = schema.get("properties") if name in CODE_TOOLS and isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return None
    return next(iter(properties)) if len(properties) == 1 else "code" if "code" in properties else None


class Tools:
    """What may be called: names with the schemas of their parameters. None: anything may."""

    def __init__(self, schemas: Mapping[str, Any] | None) -> None:
        self._schemas = schemas

    def known(self, name: str) -> str | None:
        """The tool's own name, as far as a model's decorations of it allow; None if there is no such tool."""
        plain = name.removeprefix("functions.")
        candidates = [name, plain, plain.partition(":")[0], plain.removesuffix(".call")]
        if self._schemas is None:
            return plain.partition(":")[0] or None
        return next((each for each in candidates if each in self._schemas), None)

    @property
    def unknown(self) -> bool:
        """Whether nobody said what may be called."""
        return self._schemas is None

    def schema(self, name: str) -> Any:
        return (self._schemas or {}).get(name)


@dataclass(frozen=True, slots=True)
class Read:
    """A call, and where in the text it ends. lacks: see `Arguments`."""

    call: Call
    end: int
    lacks: str | None = ""


Candidate = tuple[Pattern, CallShape]


def read_call(candidate: Candidate, text: str, tools: Tools, over: bool) -> Read | Held | None:
    """The call that `text` begins with, opened and shaped like the candidate; None if there is none."""
    opening, shape = candidate
    found = match(opening, text, 0, over)
    if not isinstance(found, Match):
        return Held() if found is MORE else None
    at = skip_space(text, found.end)
    if isinstance(shape.body, JsonCalls) and text.startswith("[", at):
        at = skip_space(text, at + 1)
    if at == len(text):
        return None if over else Held()
    if isinstance(shape.body, JsonCalls):
        return json_call(text, at, shape.body, tools, over)
    return _named_call(text, at, shape.body, shape.closers, tools, over)


def _named_call(
    text: str, at: int, body: NamedCalls, closers: tuple[Pattern, ...], tools: Tools, over: bool
) -> Read | Held | None:
    """A call whose name stands outside of its arguments."""
    found = match(body.head, text, at, over)
    if not isinstance(found, Match):
        return Held() if found is MORE else None
    if found.gaps:
        name = tools.known(found.gaps.get("name", found.gaps.get("id", "")))
    else:
        name = next((name for name in CODE_TOOLS if tools.schema(name)), None)
    if name is None:
        return None
    given = _arguments(text, found.end, body, closers, name, tools.schema(name), over)
    if given is None or isinstance(given, Held):
        return given
    return Read(Call(name, given.text), given.end, given.lacks)


def _arguments(
    text: str, at: int, body: NamedCalls, closers: tuple[Pattern, ...], name: str, schema: Any, over: bool
) -> Parsed:
    shape, code = body.arguments, code_parameter(name, schema)
    if isinstance(shape, CodeArguments):
        return code_arguments(text, at, code, over)
    if isinstance(shape, TagArguments):
        return tag_arguments(text, at, shape, schema, over)
    if isinstance(shape, LooseArguments):
        return loose_arguments(text, at, shape, schema, over)
    return json_arguments(text, at, closers, over, code)


# Calls that are one JSON object.


def expected_keys(body: JsonCalls) -> set[str]:
    """What such an object may have in it."""
    return {path[0] for path in (*body.names, *body.arguments)} | body.others


def places(text: str, at: int) -> tuple[dict[Path, str], int]:
    """(the values of a JSON object by where they stand in it, and of the objects in it, as written; its end, or 0)."""
    spans, end = members(text, at)
    found: dict[Path, str] = {}
    for key, (start, stop) in spans.items():
        found[(key,)] = text[start:stop].strip()
        if found[(key,)].startswith("{"):
            inner, _ = members(text[:stop], skip_space(text, start))
            found |= {(key, name): text[a:b].strip() for name, (a, b) in inner.items()}
    return found, end


def json_call(text: str, at: int, body: JsonCalls, tools: Tools, over: bool) -> Read | Held | None:
    """The braces may be doubled, the object's own or all of them, as some templates show how calls are written."""
    if not text.startswith("{", at):
        return None
    if at + 1 == len(text) and not over:
        return Held()
    doubled = text.startswith("{{", at)
    try:
        found, end = places(text, at + doubled)
    except ValueError:
        return None
    first = next(iter(found), ())
    said = first[0] if body.keyed and first else _string(found, body.names)
    name = tools.known(said) if said is not None else None
    if not (body.keyed or {path[0] for path in found} <= expected_keys(body)) or (name is None and (said or end)):
        return None
    if not end and not over:
        return Held("}" if name else '"')
    if name is None:
        return None
    given = next((found[path] for path in ([first] if body.keyed else body.arguments) if path in found), "")
    call = Call(name, escaped(given))
    return _ended(call, text, end, doubled, over) if end else _as_far_as_it_came(call, len(text), doubled)


def _string(found: Mapping[Path, str], paths: Iterable[Path]) -> str | None:
    """The string that stands at one of these places."""
    for written in (found[path] for path in paths if path in found):
        with suppress(ValueError, RecursionError):
            if isinstance(value := json.loads(written, strict=False), str):
                return value
    return None


def _as_far_as_it_came(call: Call, end: int, doubled: bool) -> Read:
    given = call.arguments if call.arguments.startswith("{") and not doubled else ""
    return Read(replace(call, arguments=given), end, None)


def _ended(call: Call, text: str, end: int, doubled: bool, over: bool) -> Read | Held | None:
    arguments = _inner(call.arguments)
    if doubled:
        closer = skip_space(text, end)
        if closer == len(text) and not over:
            return Held()
        end = closer + 1 if text.startswith("}", closer) else end
        arguments = arguments if is_object(arguments) else arguments.replace("{{", "{").replace("}}", "}")
    return Read(replace(call, arguments=arguments), end, "" if is_object(arguments) else None)


def _inner(text: str) -> str:
    """The object in a string, or none at all where a model leaves arguments out."""
    if text in ("", "null", '""'):
        return "{}"
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        return value if isinstance(value, str) else text
    return text
