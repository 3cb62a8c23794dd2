"""Finds out from a template's renderings how a model writes calls: as JSON objects, or name and arguments apart; to be
read (`learn_calls`), and letter by letter (`written_call`) for whoever forces a model to make a call, with the
template's white space kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.prompting.formats.chat_format import (
    CallShape,
    JsonCalls,
    LooseArguments,
    NamedCalls,
    TagArguments,
    WrittenCall,
)
from omnidraft.prompting.formats.json_values import CLOSERS
from omnidraft.prompting.formats.pattern import (
    ID,
    KEY,
    NAME,
    NUMBER,
    WORD,
    Item,
    Match,
    Pattern,
    common_end,
    common_start,
    groups,
    is_tag,
    last_match,
    match,
    pieces,
    skip_space,
)
from omnidraft.prompting.formats.probe import (
    DIGITS,
    IDS,
    KEYS,
    NAMES,
    TEXT,
    WAYS,
    Probe,
    Way,
    named_id,
)

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


# What stands between name and arguments, how they are written, and what follows them.
Shown = tuple[Pattern, TagArguments | LooseArguments | None, str]


def behind_marks(text: str, marks: Sequence[Sequence[Item]]) -> str:
    """What stands behind the last of the marks."""
    for mark in marks:
        found = last_match(mark, text)
        text = text[found.end :] if found is not None else text
    return text


def learn_arguments(one: str, more: str, number: str) -> Shown | None:
    """Of renderings from behind the name on, with one argument, with two, and with one that is a number."""
    place = json_place(one)
    if place is not None:
        return gapped(one[: place[0]]), None, one[place[1] :]
    lead, middle, behind = _around(one)
    if TEXT not in one or TEXT in lead:
        return None
    plain_middle, found, _ = number.partition(KEYS[0])[2].partition(str(DIGITS))
    plain_middle = plain_middle if found else middle
    quote = middle.removeprefix(plain_middle)
    if quote and middle.startswith(plain_middle) and behind.startswith(quote):
        return _loose(lead, plain_middle, quote, behind)
    return _tags(lead, middle, plain_middle, behind, more)


def json_place(text: str) -> tuple[int, int] | None:
    """Where the arguments stand as a JSON object."""
    return next(((start, end) for start, end, value in _objects(text) if value == _ONE), None)


def _objects(text: str) -> Iterator[tuple[int, int, Any]]:
    """Where JSON objects begin and end, with what they are; those inside of others, too."""
    start = text.find("{")
    while start >= 0:
        with suppress(ValueError, RecursionError):
            value, end = _DECODER.raw_decode(text, start)
            yield start, end, value
        start = text.find("{", start + 1)


def _around(one: str) -> tuple[str, str, str]:
    """What stands before an argument's name, between it and its value, and behind that."""
    lead, _, rest = one.partition(KEYS[0])
    middle, _, behind = rest.partition(TEXT)
    return lead, middle, behind


def _loose(lead: str, assign: str, quote: str, behind: str) -> Shown | None:
    opener = lead.rstrip()[-1:]
    rest = behind.removeprefix(quote).lstrip()
    closer = CLOSERS.get(opener)
    if closer is None or len(assign.strip()) != 1 or not rest.startswith(closer):
        return None
    own = "" if quote in ("'", '"') else quote
    return gapped(lead), LooseArguments(closer, own), rest[1:]


def _tags(lead: str, middle: str, plain: str, behind: str, more: str) -> Shown | None:
    second, found, _ = more.partition(TEXT)[2].partition(KEYS[1])
    if not found:
        return None
    between = gapped(second)
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
    lead, middle, tail = _around(one)
    between = more.partition(TEXT)[2].partition(KEYS[1])[0]
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


_DECODER = json.JSONDecoder()
_ONE = {KEYS[0]: TEXT}
_TWO = {KEYS[0]: TEXT, KEYS[1]: TEXT}
_MOST = 8  # atoms behind a call that may belong to it


@dataclass(frozen=True, slots=True)
class Calls:
    """Renderings of calls given in one way, from behind the header on; "" where the template refuses.

    one: one call with one argument; two: two calls; more: one call with two arguments; number: with a number.
    """

    one: str
    two: str
    more: str
    number: str


def learn_calls(
    probe: Probe, behind: Callable[[str], str], turn_end: Pattern, thoughts: Sequence[Pattern]
) -> tuple[CallShape, ...]:
    """The shape of calls; none if no rendering shows one that can be read."""
    for way in WAYS:
        seen = _seen(probe, way, behind, thoughts)
        if seen is None:
            continue
        shape = _shape(seen, turn_end)
        if shape is not None:
            return (replace(shape, written=written_call(*_parts(seen.one), _parts(seen.more)[1], shape, turn_end)),)
    return ()


def _seen(probe: Probe, way: Way, behind: Callable[[str], str], thoughts: Sequence[Pattern]) -> Calls | None:
    def rest(text: str | None) -> str:
        if text is None:
            return ""
        before, name, after = behind(text).partition(NAMES[0])
        return behind_marks(before, thoughts) + name + after  # thoughts that the template opens and closes

    one = rest(probe.called(way, _ONE))
    if TEXT not in one:
        return None
    others = ([_ONE, _ONE], [_TWO], [{KEYS[0]: DIGITS}])
    return Calls(one, *(rest(probe.called(way, *given)) for given in others))


def _closers(*patterns: Sequence[Item]) -> tuple[Pattern, ...]:
    """What may stand behind a call, each part of it alone."""
    found = [group for pattern in patterns for group in groups(pattern[:_MOST])]
    return tuple(dict.fromkeys([("]",), (",",), (";",), *found]))


def _without_end(tail: Sequence[Item], turn_end: Pattern) -> tuple[Item, ...]:
    """What follows a call, without what ends the turn."""
    for start in range(len(tail)):
        if turn_end and tuple(tail[start : start + len(turn_end)]) == turn_end:
            return tuple(tail[:start])
    return tuple(tail)


def _shape(seen: Calls, turn_end: Pattern) -> CallShape | None:
    """What stands before, between and behind calls: JSON objects, or names with arguments."""
    one, two = _call_objects(seen.one), _call_objects(seen.two)
    body: JsonCalls | NamedCalls | None = _json_body(one[0][2]) if one else None
    if body is not None:
        start, end, _ = one[0]
        between = gapped(seen.two[two[0][1] : two[1][0]]) if len(two) == 2 else ()
    elif (found := learn_arguments(*(_parts(text)[1] for text in (seen.one, seen.more, seen.number)))) is not None:
        before, behind = _parts(seen.one)
        lead, arguments, rest = found
        start, end = len(before), len(seen.one) - len(rest)
        body = NamedCalls((NAME, *lead), arguments)
        between = _between(seen.two, behind[behind.find(TEXT) : len(behind) - len(rest)])
    else:
        return None
    opening, tail = _opening(seen.one[:start], body), _without_end(gapped(seen.one[end:]), turn_end)
    between = between[: len(between) - common_end(between, opening)]
    return CallShape((opening,), body, _closers(tail, between))


def _opening(text: str, body: JsonCalls | NamedCalls) -> Pattern:
    """What opens a call; a sign right in front of a tag is part of it."""
    items = gapped(text)
    if isinstance(body, JsonCalls):
        return items[:-1] if items[-1:] == ("[",) else items  # of a list, which is read anyway
    glued = len(items) > 1 and not is_tag(items[0]) and is_tag(items[1]) and isinstance(items[0], str)
    start = f"{items[0]}{items[1]}" if glued else "\0"
    return (start, *items[2:]) if text.lstrip().startswith(start) else items


def _call_objects(text: str) -> list[tuple[int, int, Mapping[str, Any]]]:
    """Where JSON objects with a name and an argument in them stand, of those inside each other the outermost."""
    found: list[tuple[int, int, Mapping[str, Any]]] = []
    for start, end, value in _objects(text):
        written = text[start:end]
        if KEYS[0] in written and any(name in written for name in NAMES) and (not found or start >= found[-1][1]):
            found.append((start, end, value))
    return found


def _json_body(value: Mapping[str, Any]) -> JsonCalls | None:
    if len(value) == 1 and next(iter(value)) in NAMES:
        return JsonCalls(keyed=True)
    inner = {key: each for part in value.values() if isinstance(part, Mapping) for key, each in part.items()}
    names = [key for key, each in (*value.items(), *inner.items()) if each in (NAMES[0], named_id(0))]
    given = [key for key, each in (*value.items(), *inner.items()) if _is_given(each)]
    if not names or not given:
        return None
    known = JsonCalls()
    return JsonCalls(
        known.names.union(names[:1]), known.arguments.union(given[:1]), known.others.union(value)
    )  # fmt: skip


def _is_given(value: Any) -> bool:
    """Whether these are the probe's arguments, or their JSON in any spacing."""
    with suppress(ValueError):
        value = json.loads(value) if isinstance(value, str) else value
    return value == _ONE


def _between(two: str, value: str) -> tuple[Item, ...]:
    """What stands between two calls; `value` is what ends the first one's arguments."""
    end = two.rfind(NAMES[1], 0, max(0, two.rfind(KEYS[0])))
    _, found, text = _parts(two[: max(0, end)])[1].rpartition(value)
    return gapped(text.removesuffix("functions.")) if found else ()


def _parts(text: str) -> tuple[str, str]:
    """What stands before the first call's name and behind it, the last time it stands before the arguments; twice ""
    where it does not."""
    key = text.find(KEYS[0])
    for name in (named_id(0), NAMES[0]):
        place = text.rfind(name, 0, max(0, key))
        if place >= 0:
            return text[:place], text[place + len(name) :]
    return "", ""
