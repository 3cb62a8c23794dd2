"""A call's arguments, one parser for every way to write them. Each reads from `at` on what has come of a call so far.

over: no more will come. A parser answers with what it read, with `Held` where more is needed, or None: none stand here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.prompting.formats.chat_format import LooseArguments, TagArguments
from omnidraft.prompting.formats.json_values import (
    ANY,
    LOOSE_STRING,
    STRING,
    dump,
    escaped,
    is_object,
    members,
    own_string,
    property_of,
    read_loose,
    type_of,
    typed,
    types_of,
)
from omnidraft.prompting.formats.pattern import KEY, MORE, Match, Pattern, match, overlap, skip_space


@dataclass(frozen=True, slots=True)
class Held:
    """A call that has not ended yet. until: the sign without which it does not."""

    until: str = ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """text: of a JSON object; end: where they end. lacks: what makes them whole where the text is over before they
    are; None where nothing does, which is no call then."""

    text: str
    end: int
    lacks: str | None = ""


Parsed = Arguments | Held | None


def json_arguments(text: str, at: int, closers: Sequence[Pattern], over: bool, code: str | None = None) -> Parsed:
    """One JSON object, or none in front of one of the `closers` of a call without arguments.

    code: the parameter that a program's text behind a line's end is, in place of an object.
    """
    start = skip_space(text, at)
    if start == len(text) and not over:
        return Held()
    if text.startswith("{", start):
        return _json_object(text, start, over)
    if code is not None and text.startswith("\n", at):
        return code_arguments(text, at + 1, code, over)
    found = [match(closer, text, start, over) for closer in closers]
    if any(isinstance(each, Match) for each in found):
        return Arguments("{}", start)
    return Held() if MORE in found else None


def _json_object(text: str, at: int, over: bool) -> Parsed:
    try:
        _, end = members(text, at)
    except ValueError:
        return None
    if not end:
        return Arguments(escaped(text[at:]), len(text), None) if over else Held("}")
    written = escaped(text[at:end])
    return Arguments(written, end, "" if is_object(written) else None)


def code_arguments(text: str, at: int, parameter: str | None, over: bool) -> Parsed:
    """A program's text, which goes on to the end of the answer."""
    if parameter is None:
        return None
    if not over:
        return Held()
    return Arguments(dump({parameter: text[at:]})[:-2], len(text), '"}')


# Arguments between tags of their own: `<parameter=NAME>VALUE</parameter>`, typed by the tool's schema.

_VERBATIM = "<![CDATA["


def tag_arguments(text: str, at: int, shape: TagArguments, schema: Any, over: bool) -> Parsed:
    values: dict[str, Any] = {}
    while True:
        start = skip_space(text, at)
        done = match(shape.done, text, start, over) if shape.done else None
        found = match((*shape.begin, *shape.key_end), text, start, over)
        if isinstance(done, Match):
            return Arguments(dump(values), done.end)
        if over and start == len(text):
            return Arguments(dump(values)[:-1], start, "}")
        if MORE in (done, found):
            return Held()
        if not isinstance(found, Match) and not shape.done:
            return Arguments(dump(values), at)
        if not isinstance(found, Match):
            return Arguments(dump(values)[:-1], at, None) if values or over else None
        key = found.gaps.get("key", "").strip()
        types = _types(key, found.gaps.get("word"), shape, schema)
        closer = _closer(text, found.end, key, shape)
        stop, end = _value(text, found.end, closer, over)
        if end is None and not over:
            return Held() if stop < len(text) else Held(str(closer[0])[-1])
        before = dump(values)[:-1]
        values[key] = nested(_plain(text[found.end : stop], shape), types, property_of(key, schema), shape)
        if end is None:  # only of a text is it known how it begins
            given = dump(values)[:-2] if types == STRING else before
            return Arguments(given, len(text), dump(values)[len(given) :])
        at = end


def _types(key: str, word: str | None, shape: TagArguments, schema: Any) -> frozenset[str]:
    """word: what the tag says about the value's type."""
    types = type_of(key, schema)
    if word is None or shape.text_word is None:
        return types
    return STRING if word == shape.text_word else (types - STRING or ANY - STRING)


def _closer(text: str, at: int, key: str, shape: TagArguments) -> Pattern:
    """What ends the value that begins at `at`."""
    closer = tuple(key if item == KEY else item for item in shape.end)
    start = text[at : at + len(shape.space_before) + len(_VERBATIM)]
    return ("]]>", *closer) if start.removeprefix(shape.space_before).startswith(_VERBATIM) else closer


def _value(text: str, at: int, closer: Pattern, over: bool) -> tuple[int, int | None]:
    """(where a value ends, where what closes it does; None if that has not come)."""
    first = str(closer[0])
    stop = text.find(first, at)
    while stop >= 0:
        found = match(closer, text, stop, over)
        if found is not None:
            return stop, found.end if isinstance(found, Match) else None
        stop = text.find(first, stop + 1)
    return len(text) - overlap(text[at:], first) if over else len(text), None


def _plain(written: str, shape: TagArguments) -> str:
    """A value without what surrounds it."""
    value = written.removeprefix(shape.space_before)
    return value.removeprefix(_VERBATIM) if value.startswith(_VERBATIM) else value.removesuffix(shape.space_behind)


def nested(text: str, types: frozenset[str], schema: Any, shape: TagArguments) -> Any:
    """The value, which may be made of tags itself where the tags are named like the arguments."""
    entries = _entries(text, shape) if KEY in shape.end and types != STRING else None
    if entries is None:
        return typed(text, types)
    names = [name for name, _ in entries]
    if types == {"array"} or (types != {"object"} and (len(names) > 1 or names == ["item"]) and len(set(names)) == 1):
        inner = schema.get("items") if isinstance(schema, Mapping) else None
        return [nested(value, types_of(inner), inner, shape) for _, value in entries]
    return {name: nested(value, type_of(name, schema), property_of(name, schema), shape) for name, value in entries}


def _entries(text: str, shape: TagArguments) -> list[tuple[str, str]] | None:
    """The tags that a text consists of, with what is in each; None if it is no row of tags."""
    found, at = [], skip_space(text, 0)
    while at < len(text):
        head = match((*shape.begin, *shape.key_end), text, at, True)
        if not isinstance(head, Match):
            return None
        name = head.gaps["key"]
        opener = "".join(str(name if item == KEY else item) for item in (*shape.begin, *shape.key_end))
        closer = "".join(str(name if item == KEY else item) for item in shape.end)
        end, depth = head.end, 1
        while depth:
            stop = text.find(closer, end)
            if stop < 0:
                return None
            depth += text.count(opener, end, stop) - 1
            end = stop + len(closer)
        found.append((name, text[head.end : end - len(closer)]))
        at = skip_space(text, end)
    return found or None


# Arguments as in Python's calls (`name='value', other=[1]`) or in objects with bare keys (`name:<|"|>value<|"|>`).


def loose_arguments(text: str, at: int, shape: LooseArguments, schema: Any, over: bool) -> Parsed:
    """`name=value` pairs up to the closing bracket."""
    values: dict[str, Any] = {}
    name, depth = "", 0
    parts = re.compile(rf"{own_string(shape.quote)}|{LOOSE_STRING}|[\[\](){{}},\"'{shape.assign}]", re.DOTALL)
    for part in parts.finditer(text, at):
        sign = part[0]
        if part["own"] is not None or part["mark"]:
            continue
        if sign in "\"'":  # of a string that has not ended
            break
        if depth == 0 and sign == shape.assign and not name:
            name, at = text[at : part.start()].strip().strip("\"'"), part.end()
        elif depth == 0 and sign in (",", shape.closer):
            written, at = text[at : part.start()].strip(), part.end()
            try:
                values |= _pair(name, written, shape.quote, schema)
            except ValueError:
                return Arguments(dump(values)[:-1], at, None)
            name = ""
            if sign == shape.closer:
                return Arguments(dump(values), at)
        else:
            depth += (sign in "([{") - (sign in ")]}")
            if depth < 0:
                return None
    return Arguments(dump(values)[:-1], len(text), None) if over else Held(shape.closer)


def _pair(name: str, written: str, quote: str, schema: Any) -> dict[str, Any]:
    if not name and not written:  # behind a last comma
        return {}
    if not name:
        raise ValueError("a value without a name")
    value = read_loose(written, quote)
    return {name: value if isinstance(value, str) or type_of(name, schema) != STRING else written}
