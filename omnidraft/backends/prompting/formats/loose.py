"""Values that are almost JSON: Python's literals, bare keys, strings between quotes of a model's own.

Reads what models write for arguments: `{'a': True}`, `{a:<|"|>b<|"|>}`. Nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from typing import Any

_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_SPACE = re.compile(r"\s*")
_BARE = re.compile(r"[^\s,:=\[\](){}'\"]+(?:[^,:=\[\](){}\n]*[^\s,:=\[\](){}])?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "0": "\0"}
_CODES = {"x": 2, "u": 4, "U": 8}
_CLOSERS = {"[": "]", "(": ")", "{": "}"}
_DEEPEST = 200


def read_loose(text: str, quotes: tuple[str, ...] = ()) -> Any:
    """The value; ValueError if there is none, or more behind it. `quotes`: others than ' and "."""
    value, at = _value(text, _skip(text, 0), (*quotes, '"', "'"), 0)
    if _skip(text, at) != len(text):
        raise ValueError("more than one value")
    return value


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _value(text: str, at: int, quotes: tuple[str, ...], depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
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
    pairs, closer = text[at] == "{", _CLOSERS[text[at]]
    found: list[Any] = []
    at = _skip(text, at + 1)
    while not text.startswith(closer, at):
        value, at = _value(text, at, quotes, depth + 1)
        at = _skip(text, at)
        if pairs:
            if text[at : at + 1] not in (":", "="):
                raise ValueError("a key without a value")
            inner, at = _value(text, _skip(text, at + 1), quotes, depth + 1)
            value, at = (value if isinstance(value, str) else json.dumps(value), inner), _skip(text, at)
        found.append(value)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
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
    at = _skip(text, at)
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
        size = _CODES.get(letter, 0)
        parts.append(chr(int(text[slash + 2 : slash + 2 + size], 16)) if size else _escape(letter))
        at = slash + 2 + size


def _escape(letter: str) -> str:
    return _ESCAPES.get(letter, letter if letter in "\\'\"/" else "\\" + letter)
