"""What a reader looks for where it stands in an answer, out of a `ChatFormat`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnidraft.backends.prompting.formats.attempt import Candidate
from omnidraft.backends.prompting.formats.markers import Markers
from omnidraft.backends.prompting.formats.pattern import ends, groups, is_tag
from omnidraft.backends.prompting.formats.shapes import CallShape, ChatFormat, Pattern

THINK, ANSWER, DROP, CALL, OVER, CLOSED = "think", "answer", "drop", "call", "over", "closed"
_MOST = 8  # parts of what closes a turn


def reads_anywhere(opening: Pattern) -> bool:
    """Whether a call so opened is one in the middle of text too: `<tool_call>`, but not `[` or `{`."""
    first = opening[0] if opening else None
    return isinstance(first, str) and (is_tag(first) or len(first) > 2)


class ReaderMarks:
    """marked_calls: what calls begin with anywhere; bare_calls: only where an answer or a part of it begins.

    Markers in content, in thoughts, at the end of a turn, behind thoughts that were closed, and behind a call.
    """

    def __init__(self, form: ChatFormat, shapes: Sequence[CallShape]) -> None:
        openings = [(opening, shape) for shape in shapes for opening in shape.openings]
        self.bare_calls: list[Candidate] = list(dict.fromkeys(each for each in openings if not reads_anywhere(each[0])))
        tails = ((end, shape) for opening, shape in openings for end in ends(opening) if reads_anywhere(end))
        self.marked_calls: list[Candidate] = list(dict.fromkeys(tails))
        calls = _all(CALL, (opening[:1] for opening, _ in self.marked_calls))
        turn_end = groups(form.turn_end[:_MOST])
        last = shapes[0].closers if form.learned and shapes else ()  # a result's marker, say
        behind = _all(CLOSED, (end for end in last if "|" in str(end[0]) and end not in form.turn_end))
        over = _all(OVER, (end for end in turn_end if is_tag(end[0])))
        thoughts, content = form.thoughts, form.content
        drops = [*content.begins, *content.ends, *((drop,) for drop in form.drops)]
        drops += [form.header] if form.header and is_tag(form.header[0]) else []
        begins = _all(THINK, thoughts.begins)
        self.in_content = Markers([*begins, *_all(DROP, drops), *calls, *over, *behind])
        self.in_thoughts = Markers([*begins, *_all(ANSWER, (*thoughts.ends, *content.begins)), *calls, *over])
        self.endings = Markers([*_all(OVER, turn_end), *behind])
        self.leftovers = Markers(_all(DROP, thoughts.ends))
        closers = {*thoughts.ends, *turn_end, *(closer for shape in shapes for closer in shape.closers)}
        self.behind_call = Markers([(closer, closer[0]) for closer in closers])


def _all(meaning: str, patterns: Any) -> list[tuple[Pattern, Any]]:
    return [(pattern, meaning) for pattern in patterns]
