"""Finds out how arguments are written behind a call's name: to be read (`learn_arguments`), and letter by letter
(`written_call`) for whoever forces a model to make a call, with the template's white space kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from omnidraft.backends.prompting.formats.pattern import (
    ID,
    KEY,
    NAME,
    NUMBER,
    WORD,
    Arguments,
    CallShape,
    Item,
    JsonArguments,
    LooseArguments,
    Match,
    NamedCalls,
    Pattern,
    TagArguments,
    WrittenCall,
    common_end,
    common_start,
    groups,
    is_tag,
    match,
    pieces,
    skip_space,
)
from omnidraft.backends.prompting.formats.probe import DIGITS, IDS, KEYS, NAMES, TEXT, named_id

# A rendering's literal text as a pattern: gaps where the words of the probe stand, and where numbers count.


_NAMED = [named_id(index) for index in range(len(NAMES))]
_GAPS = re.compile("|".join([*map(re.escape, [*_NAMED, *NAMES, *IDS, *KEYS]), r"(?<!\w)[0-9]+(?!\w)"]))


def gapped(text: str) -> tuple[Item, ...]:
    """The text's atoms and gaps."""
    parts: list[Item] = []
    at = 0
    for found in _GAPS.finditer(text):
        word = found[0]
        gap = KEY if word in KEYS else ID if word in IDS else NUMBER if word.isdigit() else NAME
        parts += [text[at : found.start()], gap]
        at = found.end()
    return pieces([*parts, text[at:]])


def behind_marks(text: str, marks: Sequence[Sequence[Item]]) -> str:
    """What stands behind the last of the marks."""
    for mark in marks:
        at = text.rfind(str(mark[0]))
        while at >= 0:
            found = match(mark, text, at, True)
            if isinstance(found, Match):
                text = text[found.end :]
                break
            at = text.rfind(str(mark[0]), 0, at)
    return text


_DECODER = json.JSONDecoder()
_CLOSERS = {"(": ")", "{": "}", "[": "]"}


def learn_arguments(one: str, more: str, number: str) -> tuple[Pattern, Arguments, str] | None:
    """(what stands between name and arguments, how they are written, what follows them); None if that is not seen.

    Renderings from behind the name on, with one argument, with two, and with one that is a number.
    """
    found = json_place(one)
    if found is not None:
        start, end = found
        return gapped(one[:start]), JsonArguments(), one[end:]
    return _apart(one, more, number)


def json_place(text: str) -> tuple[int, int] | None:
    """Where the arguments stand as a JSON object."""
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


def _apart(one: str, more: str, number: str) -> tuple[Pattern, Arguments, str] | None:
    """Names and values that are no JSON object together."""
    key, value = one.find(KEYS[0]), one.find(TEXT)
    if not 0 <= key < value:
        return None
    lead, middle, behind = one[:key], one[key + len(KEYS[0]) : value], one[value + len(TEXT) :]
    digits = str(DIGITS)
    plain = number[number.find(KEYS[0]) + len(KEYS[0]) :] if KEYS[0] in number else ""
    plain_middle = plain[: plain.find(digits)] if digits in plain else middle
    quote = middle.removeprefix(plain_middle)
    if quote and middle.startswith(plain_middle) and behind.startswith(quote):
        return _loose(lead, plain_middle, quote, behind)
    return _tags(lead, middle, plain_middle, behind, more)


def _loose(lead: str, assign: str, quote: str, behind: str) -> tuple[Pattern, Arguments, str] | None:
    opener, sign = lead.rstrip()[-1:], assign.strip()
    rest = behind.removeprefix(quote).lstrip()
    closer = _CLOSERS.get(opener)
    if closer is None or len(sign) != 1 or not rest.startswith(closer):
        return None
    quotes = () if quote in ("'", '"') else (quote,)
    return gapped(lead), LooseArguments(closer, sign, quotes), rest[1:]


def _tags(lead: str, middle: str, plain: str, behind: str, more: str) -> tuple[Pattern, Arguments, str] | None:
    first, second = more.find(TEXT), more.find(KEYS[1])
    if not 0 <= first < second:
        return None
    between = gapped(more[first + len(TEXT) : second])
    before, after = gapped(lead), gapped(behind)
    end = common_start(between, after)
    if KEY in between[:end]:  # the rest belongs to what follows, in values within values too
        end = min(end, between.index(KEY) + 2)
    begin = min(common_end(before, between), len(between) - end) or min(1, len(before))
    if end == 0 or begin == 0:
        return None
    key_end, word = _key_end(middle, plain)
    space_before = middle[len(middle.rstrip()) :]
    space_behind = behind[: len(behind) - len(behind.lstrip())]
    rest = after[end:]
    start = before[len(before) - begin :]
    same = common_start(rest, start)
    tag = next((index for index, item in enumerate(rest) if index >= same and is_tag(item)), None)
    done = (*rest[:tag], *groups(rest[tag:])[0]) if tag is not None else ()
    tags = TagArguments(
        (*before[len(before) - begin :], KEY), key_end, after[:end], space_before, space_behind, word, done
    )  # fmt: skip
    return before[: len(before) - begin], tags, _from(behind, after[:end])


def _from(text: str, items: Sequence[Item]) -> str:
    """What is left of `text` behind the items."""
    found = match([KEYS[0] if item == KEY else item for item in items], text.lstrip(), 0, True)
    return text.lstrip()[found.end :] if isinstance(found, Match) else ""


def _key_end(text: str, number: str) -> tuple[Pattern, str | None]:
    """What stands between a name and its value, with a gap for a word that tells texts from other values."""
    if text == number:
        return gapped(text), None
    start = common_start(text, number)
    stop = common_end(text[start:], number[start:])
    while start and (text[start - 1].isalnum()):
        start -= 1
    while stop and text[len(text) - stop].isalnum():
        stop -= 1
    return (*gapped(text[:start]), WORD, *gapped(text[len(text) - stop :])), text[start : len(text) - stop]


def written_call(before: str, one: str, more: str, shape: CallShape, turn_end: Pattern) -> WrittenCall | None:
    """before: what stands in front of the name; one, more: renderings from behind it on, with one and two arguments.

    None where arguments are written in a way of a model's own, or with a word about each one's type.
    """
    place = json_place(one)
    if place is not None:
        return WrittenCall(before, one[: place[0]], _up_to(one[place[1] :], turn_end))
    if not isinstance(shape.body, NamedCalls) or not isinstance(shape.body.arguments, TagArguments):
        return None
    arguments = shape.body.arguments
    if arguments.text_word is not None or KEY in arguments.end:
        return None
    lead, middle = one[: one.find(KEYS[0])], one[one.find(KEYS[0]) + len(KEYS[0]) : one.find(TEXT)]
    tail, between = one[one.find(TEXT) + len(TEXT) :], more[more.find(TEXT) + len(TEXT) : more.find(KEYS[1])]
    found = match(arguments.end, between, skip_space(between, 0), True)
    if not isinstance(found, Match):
        return None
    end = found.end if lead.endswith(between[found.end :]) else skip_space(between, found.end)
    begin = between[end:]
    if not lead.endswith(begin) or not tail.startswith(between[:end]):
        return None
    head = lead.removesuffix(begin)
    return WrittenCall(before, head, _up_to(tail[end:], turn_end), (begin, middle, between[:end]))


def _up_to(text: str, turn_end: Pattern) -> str:
    return text.partition(str(turn_end[0]))[0].rstrip() if turn_end else text.rstrip()
