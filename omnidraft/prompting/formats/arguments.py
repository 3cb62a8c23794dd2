"""A call's arguments as far as they came, one parser for every way to write them. None: none stand here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from omnidraft.prompting.formats.chat_format import LooseArguments, TagArguments
from omnidraft.prompting.formats.json_values import (
    ANY,
    LOOSE_STRING,
    STRING,
    dump,
    is_object,
    json_end,
    own_string,
    property_of,
    read_loose,
    strict,
    type_of,
    typed,
    types_of,
)
from omnidraft.prompting.formats.pattern import KEY, MORE, Match, Pattern, match, overlap, skip_space


class Read(NamedTuple):
    """arguments: a JSON object's text as far as it came; end: where they end; lacks: what makes them whole where no
    more comes, "" if they are, None if nothing does; until: what must come before it is worth another look; name: the
    tool's, "" where that has not come."""

    arguments: str
    end: int
    lacks: str | None = ""
    until: str = ""
    name: str = ""


def json_arguments(text: str, at: int, closers: Iterable[Pattern], code: str | None) -> Read | None:
    """One JSON object, or none in front of one of the `closers` of a call without arguments.

    code: the parameter that a program's text behind a line's end is, in place of an object.
    """
    start = skip_space(text, at)
    if text.startswith("{", start):
        end = json_end(text, start)
        if end < 0:
            return None
        if not end:
            return Read(text[start:], len(text), None, "}")
        written = strict(text[start:end])
        return Read(written, end) if is_object(written) else None
    if code is not None and text.startswith("\n", at):
        return code_arguments(text, at + 1, code)
    found = [match(closer, text, start, False) for closer in closers]
    if any(isinstance(each, Match) for each in found):
        return Read("{}", start)
    return Read("", start, None) if start == len(text) or MORE in found else None


def code_arguments(text: str, at: int, parameter: str | None) -> Read | None:
    """A program's text, which goes on to the end of the answer."""
    return Read(dump({parameter: text[at:]})[:-2], len(text), '"}') if parameter is not None else None


# Arguments between tags of their own: `<parameter=NAME>VALUE</parameter>`, typed by the tool's schema.

_VERBATIM = "<![CDATA["


def tag_arguments(text: str, at: int, shape: TagArguments, schema: Any) -> Read | None:
    values: dict[str, Any] = {}
    head = (*shape.begin, *shape.key_end)
    while True:
        start = skip_space(text, at)
        done = match(shape.done, text, start, False) if shape.done else None
        found = match(head, text, start, False)
        if isinstance(done, Match):
            return Read(dump(values), done.end)
        if not isinstance(found, Match):
            ended = start == len(text)
            if ended or MORE in (done, found):
                return Read(dump(values)[:-1], at, "}" if ended else None)
            return Read(dump(values), at) if not shape.done else None
        key = found.gaps.get("key", "").strip()
        types = _types(key, found.gaps.get("word"), shape, schema)
        closer = _closer(text, found.end, key, shape)
        stop, end = _value(text, found.end, closer)
        before = dump(values)[:-1]
        values[key] = nested(_plain(text[found.end : stop], shape), types, property_of(key, schema), shape)
        if not end:  # only of a text is it known how it begins
            given = dump(values)[:-2] if types == STRING else before
            return Read(given, len(text), dump(values)[len(given) :], str(closer[0])[-1])
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


def _value(text: str, at: int, closer: Pattern) -> tuple[int, int]:
    """(where a value ends, where what closes it does; 0 if that has not come)."""
    first = str(closer[0])
    stop = text.find(first, at)
    while stop >= 0:
        found = match(closer, text, stop, True)
        if isinstance(found, Match):
            return stop, found.end
        stop = text.find(first, stop + 1)
    return len(text) - overlap(text[at:], first), 0


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


def loose_arguments(text: str, at: int, shape: LooseArguments, schema: Any) -> Read | None:
    """`name=value` pairs up to the closing bracket."""
    depth, last = 0, at
    parts = re.compile(rf"{own_string(shape.quote)}|{LOOSE_STRING}|[\[\](){{}},\"']", re.DOTALL)
    for part in parts.finditer(text, at):
        sign = part[0]
        if part["own"] is not None or part["mark"]:
            continue
        if sign in "\"'":  # of a string that has not ended
            break
        if depth == 0 and sign == shape.closer:
            values = _pairs(text[at : part.start()], shape, schema)
            return Read(dump(values), part.end()) if values is not None else None
        last = part.start() if depth == 0 and sign == "," else last
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return None
    return Read(dump(_pairs(text[at:last], shape, schema) or {})[:-1], len(text), None, shape.closer)


def _pairs(text: str, shape: LooseArguments, schema: Any) -> dict[str, Any] | None:
    try:
        values = read_loose(f"{{{text}}}", shape.quote)
    except ValueError:
        return None
    return {
        name: value if isinstance(value, str) or type_of(name, schema) != STRING else dump(value)
        for name, value in values.items()
    }  # fmt: skip
