"""Finds out how arguments are written behind a call's name."""

from __future__ import annotations

import json
import os.path
import re

from omnidraft.backends.prompting.formats.pattern import ID, KEY, NAME, WORD, Item, common_end, common_start, is_tag, pieces
from omnidraft.backends.prompting.formats.probe import IDS, KEYS, NAMES, NUMBER, TEXT, named_id
from omnidraft.backends.prompting.formats.shapes import JsonArguments, LooseArguments, Pattern, TagArguments

Arguments = JsonArguments | TagArguments | LooseArguments
_DECODER = json.JSONDecoder()
_CLOSERS = {"(": ")", "{": "}", "[": "]"}
_SLOTS = re.compile("|".join(map(re.escape, [*(named_id(i) for i in (0, 1)), *NAMES, *IDS, *KEYS])))
_DIGITS = re.compile(r"[0-9]+")


def learn_arguments(one: str, more: str, number: str, two: str | None) -> tuple[Pattern, Arguments, Pattern] | None:
    """(what stands between name and arguments, how they are written, what follows them); None if that is not seen.

    All from behind the name: one: one argument; more: two; number: a number; two: two calls.
    """
    found = _json(one)
    if found is not None:
        start, end = found
        return _items(one[:start]), JsonArguments(), _items(one[end:])
    return _apart(one, more, number)


def _json(text: str) -> tuple[int, int] | None:
    start = text.find("{")
    while start >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = None, start
        if value == {KEYS[0]: TEXT}:
            return start, end
        start = text.find("{", start + 1)
    return None


def _items(text: str) -> tuple[Item, ...]:
    parts: list[Item] = []
    at = 0
    for found in _SLOTS.finditer(text):
        gap = KEY if found[0] in KEYS else ID if found[0] in IDS else NAME
        parts += [text[at : found.start()], gap]
        at = found.end()
    return pieces([*parts, text[at:]])


def _apart(one: str, more: str, number: str) -> tuple[Pattern, Arguments, Pattern] | None:
    """Names and values that are no JSON object together."""
    key, value = one.find(KEYS[0]), one.find(TEXT)
    if not 0 <= key < value:
        return None
    lead, middle, behind = one[:key], one[key + len(KEYS[0]) : value], one[value + len(TEXT) :]
    digits = str(NUMBER)
    plain = number[number.find(KEYS[0]) + len(KEYS[0]) :] if KEYS[0] in number else ""
    plain_middle = plain[: plain.find(digits)] if digits in plain else middle
    quote = middle.removeprefix(plain_middle)
    if quote and middle.startswith(plain_middle) and behind.startswith(quote):
        return _loose(lead, plain_middle, quote, behind)
    return _tags(lead, middle, plain_middle, behind, more)


def _loose(lead: str, assign: str, quote: str, behind: str) -> tuple[Pattern, Arguments, Pattern] | None:
    opener, sign = lead.rstrip()[-1:], assign.strip()
    rest = behind.removeprefix(quote).lstrip()
    closer = _CLOSERS.get(opener)
    if closer is None or len(sign) != 1 or not rest.startswith(closer):
        return None
    quotes = () if quote in ("'", '"') else (quote,)
    return _items(lead), LooseArguments(closer, sign, quotes), _items(rest[1:])


def _tags(lead: str, middle: str, plain: str, behind: str, more: str) -> tuple[Pattern, Arguments, Pattern] | None:
    first, second = more.find(TEXT), more.find(KEYS[1])
    if not 0 <= first < second:
        return None
    between = _items(more[first + len(TEXT) : second])
    before, after = _items(lead), _items(behind)
    end = common_start(between, after)
    begin = min(common_end(before, between), len(between) - end) or min(1, len(before))
    if end == 0 or begin == 0:
        return None
    key_end, word = _key_end(middle, plain)
    space_before = middle[len(middle.rstrip()) :]
    space_behind = behind[: len(behind) - len(behind.lstrip())]
    rest = after[end:]
    done = next(((item,) for item in rest if is_tag(item)), ())
    tags = TagArguments(
        (*before[len(before) - begin :], KEY), key_end, after[:end], space_before, space_behind, word, done
    )  # fmt: skip
    return before[: len(before) - begin], tags, rest


def _key_end(text: str, number: str) -> tuple[Pattern, str | None]:
    """What stands between a name and its value, with a gap for a word that tells texts from other values."""
    if text == number:
        return _items(text), None
    start = len(os.path.commonprefix([text, number]))
    stop = len(os.path.commonprefix([text[start:][::-1], number[start:][::-1]]))
    while start and (text[start - 1].isalnum()):
        start -= 1
    while stop and text[len(text) - stop].isalnum():
        stop -= 1
    return (*_items(text[:start]), WORD, *_items(text[len(text) - stop :])), text[start : len(text) - stop]
