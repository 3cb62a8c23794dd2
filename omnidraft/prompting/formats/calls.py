"""Reads one call as far as it came, from what opens it on: its name, which must be a tool's, and its arguments. A call
that is not whole is read again when more of it is there; nothing is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from omnidraft.prompting.formats.arguments import (
    Read,
    code_arguments,
    json_arguments,
    loose_arguments,
    tag_arguments,
)
from omnidraft.prompting.formats.chat_format import CallShape, JsonCalls, LooseArguments, NamedCalls, TagArguments
from omnidraft.prompting.formats.json_values import dump, is_object, json_end
from omnidraft.prompting.formats.pattern import MORE, Match, Pattern, match, skip_space
from omnidraft.prompting.json_schema import fits

# Some models write code for an interpreter as it stands, to the answer's end. After Meta's description of the code
# interpreter of Llama 3.1 and later (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/) and MeetKai's
# of functionary (https://github.com/MeetKai/functionary).
CODE_TOOLS = ("python", "ipython", "code_interpreter")


class Tools:
    """What may be called: names with the schemas of their parameters."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def known(self, name: str) -> str | None:
        """The tool's own name, as far as a model's decorations of it allow; None if there is no such tool."""
        plain = name.removeprefix("functions.")
        candidates = [name, plain, plain.partition(":")[0], plain.removesuffix(".call")]
        return next((each for each in candidates if each in self._schemas), None)

    def schema(self, name: str) -> Any:
        return self._schemas.get(name)

    def code(self, name: str) -> str | None:
        """The parameter that takes the code, if this is a tool that runs any: its only one, or `code`."""
        schema = self.schema(name) if name in CODE_TOOLS else None
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(properties, Mapping):
            return None
        return next(iter(properties)) if len(properties) == 1 else "code" if "code" in properties else None


Candidate = tuple[Pattern, CallShape]
_HELD = Read("", 0, None)


def read_call(candidate: Candidate, text: str, tools: Tools, over: bool) -> Read | None:
    """The call that `text` begins with, opened and shaped like the candidate; None if there is none.

    over: no more will come.
    """
    opening, shape = candidate
    if shape is PLAIN:
        return _plain_call(text, tools, over)
    found = match(opening, text, 0, over)
    if not isinstance(found, Match):
        return _HELD if found is MORE else None
    at = skip_space(text, found.end)
    if isinstance(shape.body, JsonCalls) and text.startswith("[", at):
        at = skip_space(text, at + 1)
    if at == len(text):
        return _HELD
    if isinstance(shape.body, JsonCalls):
        return json_call(text, at, shape.body, tools)
    return _named_call(text, at, shape.body, shape.closers, tools, over)


def _named_call(
    text: str, at: int, body: NamedCalls, closers: Sequence[Pattern], tools: Tools, over: bool
) -> Read | None:
    """A call whose name stands outside of its arguments."""
    found = match(body.head, text, at, over)
    if not isinstance(found, Match):
        return _HELD if found is MORE else None
    if found.gaps:
        name = tools.known(found.gaps.get("name", found.gaps.get("id", "")))
    else:
        name = next((name for name in CODE_TOOLS if tools.schema(name)), None)
    given = _arguments(text, found.end, body, closers, name, tools) if name is not None else None
    return given._replace(name=name) if name is not None and given is not None else None


def _arguments(
    text: str, at: int, body: NamedCalls, closers: Sequence[Pattern], name: str, tools: Tools
) -> Read | None:
    """None where none stand here."""
    shape, schema = body.arguments, tools.schema(name)
    if isinstance(shape, TagArguments):
        return tag_arguments(text, at, shape, schema)
    if isinstance(shape, LooseArguments):
        return loose_arguments(text, at, shape, schema)
    if not body.head:
        return code_arguments(text, at, tools.code(name))
    return json_arguments(text, at, closers, tools.code(name))


# Calls that are one JSON object.


# What begins one; the braces may be doubled, the object's own or all of them, as some templates show how calls are
# written.
_BEGUN = re.compile(r'\{(?P<inner>\{)?\s*(?:"(?P<key>[^"\\]*)(?P<closed>"(?:\s*:\s*"(?P<value>[^"\\]*)")?)?)?')


def json_call(text: str, at: int, body: JsonCalls, tools: Tools) -> Read | None:
    begun = _BEGUN.match(text, at)
    if begun is None or not _may_call(begun, text, body, tools):
        return None
    written, end = _object(text, at, begun["inner"])
    if end < 0:
        return None
    if not end:
        return _partial(text[at:], body, tools, bool(begun["inner"]))
    return _whole(json.loads(written, strict=False), written, end, body, tools)


def _may_call(begun: re.Match[str], text: str, body: JsonCalls, tools: Tools) -> bool:
    key, value = begun["key"], begun["value"]
    if not begun["closed"]:
        return begun.end() == len(text)
    if body.keyed:
        return tools.known(key) is not None
    return key in body.keys and (key not in body.names or value is None or tools.known(value) is not None)


def _object(text: str, at: int, inner: str | None) -> tuple[str, int]:
    """(the object with single braces, where it ends in the text; 0 if it has not yet, -1 if it is none)."""
    if not inner:
        end = json_end(text, at)
        return text[at:end], end
    if (end := json_end(text, at + 1)) > 0:
        closer = skip_space(text, end)
        whole = text.startswith("}", closer)
        return text[at + 1 : end], closer + 1 if whole else -1 if closer < len(text) else 0
    single = text[at:].replace("{{", "{").replace("}}", "}")
    size = json_end(single, 0)
    written = single[: max(0, size)]
    end = at + size + written.count("{") + written.count("}")
    return written, size if size <= 0 else end if end <= len(text) else 0


def _whole(value: Mapping[str, Any], written: str, end: int, body: JsonCalls, tools: Tools) -> Read | None:
    """What an object calls, with the arguments as they are written in it; None if it is no call."""
    if body.keyed:
        said, key = next(iter(value), ""), next(iter(value), None)
    elif not value.keys() <= body.keys:
        return None
    else:
        inner = next((each for each in value.values() if isinstance(each, dict) and body.names & each.keys()), {})
        parts = value if any(isinstance(value.get(name), str) for name in body.names) else inner
        said = next((parts[name] for name in sorted(body.names) if isinstance(parts.get(name), str)), "")
        key = next((name for name in sorted(body.arguments) if name in parts), None)
        value = parts
    name, given = tools.known(said), value.get(key) if key is not None else None
    arguments = given or "{}" if given is None or isinstance(given, str) else _as_written(written, str(key), given)
    return Read(arguments, end, name=name) if name is not None and is_object(arguments) else None


def _as_written(text: str, key: str, value: Any) -> str:
    """The value of this key, in its own spacing if that is JSON."""
    for found in re.finditer(rf'"{re.escape(key)}"\s*:\s*', text):
        written = text[found.end() : max(0, json_end(text, found.end()))]
        with suppress(ValueError):
            if json.loads(written) == value:
                return written
    return dump(value)


def _partial(text: str, body: JsonCalls, tools: Tools, doubled: bool) -> Read:
    """The call as far as it came."""
    keys = "|".join(map(re.escape, body.names))
    named = re.search(r'"([^"\\]*)"' if body.keyed else rf'"(?:{keys})"\s*:\s*"([^"\\]*)"', text)
    name = tools.known(named[1]) if named is not None else None
    keys = "|".join(map(re.escape, [name or ""] if body.keyed else body.arguments))
    given = re.search(rf'"(?:{keys})"\s*:\s*(\{{.*)', text, re.DOTALL)
    if name is None or given is None or doubled:
        return Read("", len(text), None, "}" if name else '"', name or "")
    end = json_end(given[1], 0)
    return Read(given[1][:end] if end > 0 else given[1].rstrip(), len(text), None, "}", name)


# An answer that is one JSON object and nothing else, perhaps in a fence, is a call where it has arguments that fit:
# models forget the marks that their template puts around calls.
PLAIN = CallShape(((),), JsonCalls())
_FENCE = re.compile(r"```(?:json|tool_call)?\s*|(?=\{)")
_FENCE_BEGINS = re.compile(r"`{1,2}|```\w*")


def _plain_call(text: str, tools: Tools, over: bool) -> Read | None:
    fence = _FENCE.match(text)
    at = fence.end() if fence is not None else 0
    if at == len(text) or _FENCE_BEGINS.fullmatch(text):
        return _HELD
    body = JsonCalls()
    found = json_call(text, at, body, tools) if fence is not None else None
    if found is None or found.lacks is None:
        return found
    if not re.compile(r"\s*`{0,3}\s*" if at else r"\s*").fullmatch(text, found.end):
        return None
    written = text[at : found.end]
    single = written.replace("{{", "{").replace("}}", "}")
    strict = any(map(is_object, (written, written[1:-1], single)))  # reading calls is less so
    given = any(f'"{name}"' in written for name in body.arguments)
    fit = strict and given and fits(json.loads(found.arguments), tools.schema(found.name))
    return found._replace(end=len(text), lacks="" if over else None) if fit else None
