"""Finds out from a template's renderings how a model writes calls: as JSON objects, or name and arguments apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.backends.prompting.formats.json_values import Path
from omnidraft.backends.prompting.formats.learn_arguments import behind_marks, learn_arguments, written_call
from omnidraft.backends.prompting.formats.learn_arguments import gapped as _gapped
from omnidraft.backends.prompting.formats.pattern import (
    NAME,
    CallShape,
    Item,
    JsonCalls,
    NamedCalls,
    Pattern,
    common_end,
    common_start,
    groups,
    is_tag,
)
from omnidraft.backends.prompting.formats.probe import (
    CONTENT,
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

# Finds out from a template's renderings what it writes right before an answer.


THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
_TOKEN = re.compile(r"\s+|<[^<>\s]*>?|\[[^\[\]\s]*\]?|>+|[^\s<\[>]+")


@dataclass(frozen=True, slots=True)
class Header:
    """asked: what ends the question, whoever speaks next; text: what begins the answer."""

    asked: str
    text: str

    def behind(self, answer: str) -> str:
        """An answer's rendering without what stands before it."""
        own = answer.removeprefix(self.asked)
        at = own.find(self.text)
        return own[at + len(self.text) :] if at >= 0 else own

    def begun(self, prompt: str) -> str:
        """What a prompt itself writes of the answer; it may have instructions before the header."""
        own = prompt.removeprefix(self.asked)
        at = own.rfind(self.text)
        return own[at + len(self.text) :] if at >= 0 else own


def learn_header(asked: str, before: str, prompts: Sequence[str]) -> Header:
    """asked, before, prompts: what stands behind a question without an answer, before a plain one, and in prompts."""
    if asked in prompts:  # the template always begins an answer, asked or not
        asked = ""
    own, given = before.removeprefix(asked), [prompt.removeprefix(asked) for prompt in prompts]
    for group in (given, given[-1:]):
        text = _shared(own, group)
        if text:
            return Header(asked, _unglued(text, [own, *group]))
    return Header(asked, _shared(given[-1], given) if given else "")  # earlier answers are written otherwise


def _shared(own: str, prompts: Sequence[str]) -> str:
    """The first row of words and tags that every prompt has too, up to where thoughts are opened or closed."""
    tokens, rows = _TOKEN.findall(own), list(map(_row, map(_TOKEN.findall, prompts)))
    for start in range(len(tokens)):
        end = start
        while end < len(tokens) and not (tokens[end][0] in "<[" and THINKS.search(tokens[end])):
            if not all(_row(tokens[start : end + 1]) in row for row in rows):
                break
            end += 1
        text = "".join(tokens[start:end])
        if text.strip():
            return text
    return ""


def _row(tokens: Sequence[str]) -> str:
    return "\0" + "".join(f"{token}\0" for token in tokens)


def _unglued(header: str, texts: Sequence[str]) -> str:
    """Without a last tag that belongs to the words behind it, where these are not the same everywhere."""
    rests = {text[text.rfind(header) + len(header) :] for text in texts if header in text} - {""}
    tokens = _TOKEN.findall(header)
    glued = tokens and tokens[-1][0] in "<[" and len(rests) > 1 and all(rest[0].isalnum() for rest in rests)
    return header.removesuffix(tokens[-1]) if glued else header


_DECODER = json.JSONDecoder()
_ONE = {KEYS[0]: TEXT}
_TWO = {KEYS[0]: TEXT, KEYS[1]: TEXT}
_MOST = 8  # atoms behind a call that may belong to it


@dataclass(frozen=True, slots=True)
class Calls:
    """Renderings of calls given in one way, from behind the header on; "" where the template refuses.

    one: one call with one argument; two: two calls; more: one call with two arguments; number: with a number;
    after: one call behind content.
    """

    one: str
    two: str
    more: str
    number: str
    after: str


def learn_calls(probe: Probe, header: Header, turn_end: Pattern, thoughts: Sequence[Pattern]) -> tuple[CallShape, ...]:
    """The shape of calls; none if no rendering shows one that can be read."""
    for way in WAYS:
        seen = _seen(probe, way, header, thoughts)
        if seen is None:
            continue
        shape = _json_calls(seen, turn_end) or _named_calls(seen, turn_end)
        if shape is not None:
            parts = _parts(seen.one)
            written = written_call(*parts, _behind(seen.more), shape, turn_end) if parts is not None else None
            return (replace(shape, written=written),)
    return ()


def _seen(probe: Probe, way: Way, header: Header, thoughts: Sequence[Pattern]) -> Calls | None:
    def rest(text: str | None) -> str:
        if text is None:
            return ""
        before, name, behind = header.behind(text).partition(NAMES[0])
        return behind_marks(before, thoughts) + name + behind  # thoughts that the template opens and closes

    one = rest(probe.called(way, _ONE))
    if TEXT not in one:
        return None
    after = rest(probe.called(way, _ONE, content=CONTENT))
    between = after[after.find(CONTENT) + len(CONTENT) :] if 0 <= after.find(CONTENT) < after.find(NAMES[0]) else ""
    return Calls(
        one, rest(probe.called(way, _ONE, _ONE)), rest(probe.called(way, _TWO)),
        rest(probe.called(way, {KEYS[0]: DIGITS})), between,
    )  # fmt: skip


def _closers(*patterns: Sequence[Item]) -> tuple[Pattern, ...]:
    """What may stand behind a call, each part of it alone."""
    found: dict[Pattern, None] = dict.fromkeys((("]",), (",",), (";",)))
    for pattern in patterns:
        found |= dict.fromkeys(groups(pattern[:_MOST]))
    return tuple(found)


def _without_end(tail: Sequence[Item], turn_end: Pattern) -> tuple[Item, ...]:
    """What follows a call, without what ends the turn."""
    for start in range(len(tail)):
        if turn_end and tuple(tail[start : start + len(turn_end)]) == turn_end:
            return tuple(tail[:start])
    return tuple(tail)


# Calls as JSON objects


def _objects(text: str) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Where JSON objects with a name and an argument in them stand, outermost first."""
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if any(name in text[at:end] for name in NAMES) and KEYS[0] in text[at:end]:
            yield at, end, value
            at = text.find("{", end)
        else:
            at = text.find("{", at + 1)


def _json_calls(seen: Calls, turn_end: Pattern) -> CallShape | None:
    found = next(_objects(seen.one), None)
    if found is None:
        return None
    start, end, value = found
    body = _json_body(value)
    if body is None:
        return None
    openings = [_opening(seen.one[:start])]
    behind = next(_objects(seen.after), None)
    if behind is not None:
        openings.append(_opening(seen.after[: behind[0]]))
    tails = [_without_end(_gapped(seen.one[end:]), turn_end)]
    both = list(_objects(seen.two))
    if len(both) == 2:
        between = _gapped(seen.two[both[0][1] : both[1][0]])
        own = common_end(between, openings[0])
        tails.append(between[: len(between) - own])
        openings.append(_without_comma(between))
    known = tuple(dict.fromkeys(opening for opening in openings[1:] if opening not in ((), openings[0])))
    return CallShape((openings[0], *known), body, _closers(*tails))


def _without_comma(between: Sequence[Item]) -> Pattern:
    """What stands right before another call: from its first tag that opens something on."""
    starts = [i for i, item in enumerate(between) if is_tag(item) and "/" not in str(item)[:3]]
    return tuple(item for item in between[starts[0] :] if item != "[") if starts else ()


def _opening(text: str) -> Pattern:
    items = _gapped(text)
    return items[:-1] if items[-1:] == ("[",) else items


def _json_body(value: Mapping[str, Any]) -> JsonCalls | None:
    if len(value) == 1 and next(iter(value)) in NAMES:
        return JsonCalls(keyed=True)
    places = list(_places(value))
    names = [path for path, inner in places if inner == NAMES[0] or inner == named_id(0)]
    ids = [path for path, inner in places if inner in IDS]
    given = [path for path, inner in places if _is_given(inner)]
    if not names or not given:
        return None
    known = JsonCalls()
    return JsonCalls(
        frozenset(names[:1]) | known.names,
        frozenset(given[:1]) | known.arguments,
        frozenset(ids[:1]) | known.ids,
        others=frozenset(value),
    )


def _places(value: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for key, inner in value.items():
        yield (key,), inner
        if isinstance(inner, Mapping):
            for deeper, innermost in inner.items():
                yield (key, deeper), innermost


def _is_given(value: Any) -> bool:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return False
    return value == _ONE


# Calls with a name of their own


def _named_calls(seen: Calls, turn_end: Pattern) -> CallShape | None:
    parts = _parts(seen.one)
    found = learn_arguments(parts[1], _behind(seen.more), _behind(seen.number)) if parts is not None else None
    if parts is None or found is None:
        return None
    opening, (lead, arguments, rest) = _gapped(parts[0]), found
    openings = [_whole(opening, parts[0])]
    opening = openings[0]
    if seen.after and (other := _parts(seen.after)) is not None:
        openings.append(_whole(_gapped(other[0]), other[0]))
    tail = _without_end(_gapped(rest), turn_end)
    between = _between(seen.two, parts[1][parts[1].find(TEXT) : len(parts[1]) - len(rest)])
    skip = common_start(between, tail)
    own = common_end(between[skip:], opening)
    openings.append(between[len(between) - own :] if own else between[skip:])
    others = (each for each in openings[1:] if each not in ((), opening) and each[0] not in (",", ";"))
    known = tuple(dict.fromkeys(others))
    closers = _closers(tail, between[: len(between) - own])
    return CallShape((opening, *known), NamedCalls((NAME, *lead), arguments), closers)


def _whole(opening: Pattern, text: str) -> Pattern:
    """A sign right in front of a tag is part of it."""
    glued = len(opening) > 1 and not is_tag(opening[0]) and is_tag(opening[1]) and isinstance(opening[0], str)
    start = f"{opening[0]}{opening[1]}" if glued else "\0"
    return (start, *opening[2:]) if text.lstrip().startswith(start) else opening


def _between(two: str, value: str) -> tuple[Item, ...]:
    """What stands between two calls; `value` is what ends the first one's arguments."""
    end = two.rfind(NAMES[1], 0, max(0, two.rfind(KEYS[0])))
    parts = _parts(two[:end]) if end >= 0 else None
    if parts is None or value not in parts[1]:
        return ()
    text = parts[1][parts[1].rfind(value) + len(value) :]
    return _gapped(text.removesuffix("functions."))


def _parts(text: str) -> tuple[str, str] | None:
    """What stands before the first call's name and behind it: the last time it stands before the arguments."""
    key = text.find(KEYS[0])
    if key < 0:
        return None
    for name in (named_id(0), NAMES[0]):
        place = text.rfind(name, 0, key)
        if place >= 0:
            return text[:place], text[place + len(name) :]
    return None


def _behind(text: str) -> str:
    parts = _parts(text)
    return parts[1] if parts is not None else ""
