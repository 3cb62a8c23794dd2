"""What a parameter's text means: typed by its JSON schema, or by what it looks like where there is none; and the object
that parameters make.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from omnidraft.prompting.formats.pattern import skip_space
from omnidraft.prompting.json_schema import referred

# A JSON object read in pieces: where it ends, and which strings and values stand at which keys. Only as strict as
# finding the end takes; what was read is parsed by whoever needs its values. Linear in the text.


_OUTSIDE = re.compile(r"[\"{}\[\],:]")
_INSIDE = re.compile(r"[\"\\\x00-\x1f]")
_DEEPEST = 500
CLOSERS = {"[": "]", "(": ")", "{": "}"}
Path = tuple[str, ...]


class JsonScan:
    """Feed it the text from `{` on. `strings`: values of strings by path; `watched` are the paths whose text is kept.

    Paths are of keys only: what stands in lists has none. A watched value's text is in `texts`; characters that JSON
    forbids in strings are escaped there.
    """

    def __init__(self, named: frozenset[Path], watched: frozenset[Path]) -> None:
        self.strings: dict[Path, str] = {}
        self.texts: dict[Path, list[str]] = {}
        self.keys: list[Path] = []  # that have come so far, of the first two levels
        self.done = self.failed = False
        self._named, self._watched = named, watched
        self._stack: list[str] = []
        self._path: list[str] = []
        self._value = False  # whether what comes next is a value
        self._string: list[str] | None = None
        self._escaped = False
        self._copying: Path | None = None
        if () in watched:
            self._copying, self.texts[()] = (), []

    def feed(self, text: str, at: int = 0) -> int:
        """Reads on from `at`; where it stopped: behind the object's end, or at the end of the text."""
        while at < len(text) and not (self.done or self.failed):
            at = self._outside(text, at) if self._string is None else self._inside(text, at)
        return at

    def _outside(self, text: str, at: int) -> int:
        found = _OUTSIDE.search(text, at)
        end = found.start() if found else len(text)
        if end > at:
            if not text[at:end].isspace():
                self._begin_value()
            self._copy(text[at:end])
        if found is None:
            return end
        sign = found[0]
        if sign in '"{[':
            self._begin_value()
        elif sign in "}],":
            self._end_value()
        self._copy(sign)
        if sign == '"':
            self._string = []
        elif sign in "{[":
            self._open(sign)
        elif sign in "}]":
            self._close(sign)
        else:
            self._value = sign == ":" or self._stack[-1:] == ["["]
        return end + 1

    def _inside(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._write(text[at])
            return at + 1
        found = _INSIDE.search(text, at)
        end = found.start() if found else len(text)
        self._write(text[at:end])
        if found is None:
            return end
        if found[0] == '"':
            self._copy('"')
            self._end_string()
        else:
            self._escaped = found[0] == "\\"
            self._write(found[0] if self._escaped else json.dumps(found[0])[1:-1])
        return end + 1

    def _write(self, text: str) -> None:
        """More of a string."""
        assert self._string is not None
        self._string.append(text)
        self._copy(text)

    def _open(self, sign: str) -> None:
        self._stack.append(sign)
        self._value = sign == "["
        self.failed = len(self._stack) > _DEEPEST

    def _close(self, sign: str) -> None:
        if not self._stack or CLOSERS[self._stack.pop()] != sign:
            self.failed = True
        self.done = not self._stack
        self._end_value()

    def _place(self) -> Path | None:
        """The path of the value that stands here; None in lists and far down."""
        depth = len(self._stack)
        return tuple(self._path) if depth <= 2 and len(self._path) == depth and "[" not in self._stack else None

    def _begin_value(self) -> None:
        place = self._place()
        if self._value and self._copying is None and place is not None and self._watches(place):
            self._copying = place
            self.texts[place] = []

    def _watches(self, place: Path) -> bool:
        return place in self._watched and place not in self.texts

    def _end_value(self) -> None:
        """A value is over if one stood here; so is its key."""
        if len(self._stack) > len(self._path):
            return
        if self._copying == tuple(self._path):
            self._copying = None
        del self._path[-1:]
        self._value = False

    def _end_string(self) -> None:
        text = "".join(self._string or ())
        self._string = None
        if self._stack and self._stack[-1] == "{" and not self._value:
            if len(self._stack) == len(self._path) + 1:
                self._path.append(_decoded(text))
                if len(self._path) <= 2 and "[" not in self._stack:
                    self.keys.append(tuple(self._path))
        elif (place := self._place()) is not None and place in self._named:
            self.strings.setdefault(place, _decoded(text))

    def _copy(self, text: str) -> None:
        if self._copying is not None:
            self.texts[self._copying].append(text)


def _decoded(text: str) -> str:
    try:
        return json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text


# Values that are almost JSON: Python's literals, bare keys, strings between quotes of a model's own. Reads what models
# write for arguments: `{'a': True}`, `{a:<|"|>b<|"|>}`. Nothing is evaluated.


_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_BARE = re.compile(r"[^\s,:=\[\](){}'\"]+(?:[^,:=\[\](){}\n]*[^\s,:=\[\](){}])?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "0": "\0"}
_CODES = {"x": 2, "u": 4, "U": 8}
_DEEPEST_LOOSE = 200


def read_loose(text: str, quotes: tuple[str, ...] = ()) -> Any:
    """The value; ValueError if there is none, or more behind it. `quotes`: others than ' and "."""
    value, at = _value(text, skip_space(text, 0), (*quotes, '"', "'"), 0)
    if skip_space(text, at) != len(text):
        raise ValueError("more than one value")
    return value


def _value(text: str, at: int, quotes: tuple[str, ...], depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST_LOOSE:
        raise ValueError("nested too deeply")
    quote = next((q for q in quotes if text.startswith(q, at)), None)
    if quote is not None:
        return _string(text, at + len(quote), quote, ",)]}:=" if depth else "")
    if text[at : at + 1] in ("[", "("):
        return _entries(text, at, quotes, depth)
    if text[at : at + 1] == "{":
        pairs, at = _entries(text, at, quotes, depth)
        return dict(pairs), at
    bare = _BARE.match(text, at)
    if bare is None:
        raise ValueError("no value")
    return _word(bare[0]), bare.end()


def _entries(text: str, at: int, quotes: tuple[str, ...], depth: int) -> tuple[list[Any], int]:
    """What stands between brackets: values, or pairs between braces."""
    pairs, closer = text[at] == "{", CLOSERS[text[at]]
    found: list[Any] = []
    at = skip_space(text, at + 1)
    while not text.startswith(closer, at):
        value, at = _value(text, at, quotes, depth + 1)
        at = skip_space(text, at)
        if pairs:
            if text[at : at + 1] not in (":", "="):
                raise ValueError("a key without a value")
            inner, at = _value(text, skip_space(text, at + 1), quotes, depth + 1)
            value, at = (value if isinstance(value, str) else json.dumps(value), inner), skip_space(text, at)
        found.append(value)
        if text.startswith(",", at):
            at = skip_space(text, at + 1)
        elif not text.startswith(closer, at):
            raise ValueError("a list that does not end")
    return found, at + 1


def _word(word: str) -> Any:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    try:
        return json.loads(word)
    except ValueError:
        return word


def _closing_quote(text: str, at: int, quote: str, behind: str) -> int:
    """The first quote that stands where a string may end; -1 if there is none."""
    end = text.find(quote, at)
    while end >= 0 and len(quote) == 1 and not ends_value(text, end + 1, behind):
        end = text.find(quote, end + 1)
    return end


def ends_value(text: str, at: int, behind: str) -> bool:
    """Whether nothing follows, or one of `behind`: models forget to escape the quotes within their strings."""
    at = skip_space(text, at)
    return at == len(text) or text[at] in behind


def _string(text: str, at: int, quote: str, behind: str) -> tuple[str, int]:
    parts: list[str] = []
    plain = len(quote) > 1  # quotes of a model's own need no escapes
    while True:
        end = _closing_quote(text, at, quote, behind)
        slash = -1 if plain else text.find("\\", at, end if end >= 0 else len(text))
        if slash < 0:
            if end < 0:
                raise ValueError("a string that does not end")
            return "".join([*parts, text[at:end]]), end + len(quote)
        parts.append(text[at:slash])
        letter = text[slash + 1 : slash + 2]
        size, own = _CODES.get(letter, 0), letter if letter in "\\'\"/" else "\\" + letter
        parts.append(chr(int(text[slash + 2 : slash + 2 + size], 16)) if size else _ESCAPES.get(letter, own))
        at = slash + 2 + size


_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
ANY, STRING = frozenset(_TYPES.values()), frozenset(("string",))
_DEEPEST_REFERENCES = 16  # references within references
Say = Callable[[str], None]


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
