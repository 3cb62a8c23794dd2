"""How a call is written, letter by letter, for whoever forces a model to make one.

Unlike a `CallShape`, which tells how to read what models make of it, this keeps the template's white space.
"""

from __future__ import annotations

from omnidraft.backends.prompting.formats.learn_arguments import json_place
from omnidraft.backends.prompting.formats.pattern import KEY, Match, match, skip_space
from omnidraft.backends.prompting.formats.probe import KEYS, TEXT
from omnidraft.backends.prompting.formats.shapes import CallShape, NamedCalls, Pattern, TagArguments, WrittenCall


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
