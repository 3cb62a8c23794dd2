"""Finds the first of several markers in text that is still coming, and what of it may be given away meanwhile.

`ReaderMarks` are those of a `ChatFormat`: what a reader looks for where it stands in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.formats.attempt import Candidate
from omnidraft.backends.prompting.formats.pattern import MORE, Match, ends, groups, is_tag, match, overlap
from omnidraft.backends.prompting.formats.shapes import CallShape, ChatFormat, Pattern


@dataclass(frozen=True, slots=True)
class Found:
    """Where a marker begins and ends, and what it means."""

    start: int
    end: int
    meaning: Any


class Markers:
    """Patterns that begin with a literal, each with a meaning; of several at one place the longest counts."""

    def __init__(self, patterns: Iterable[tuple[Pattern, Any]]) -> None:
        self._by_first: dict[str, list[tuple[Pattern, Any]]] = {}
        for pattern, meaning in patterns:
            self._by_first.setdefault(str(pattern[0]), []).append((pattern, meaning))
        firsts = sorted(self._by_first, key=len, reverse=True)
        self._search = re.compile("|".join(map(re.escape, firsts))) if firsts else None
        self._letters = {first[0] for first in firsts}
        self._longest = max(map(len, firsts), default=0)

    def find(self, text: str, final: bool, prior: Any = None) -> Found | int:
        """The first marker; else how much of the text can be no part of one, whatever follows."""
        at = 0
        while self._search is not None and (first := self._search.search(text, at)):
            found = self.at(text, first.start(), final, prior)
            if found is MORE:
                return first.start()
            if isinstance(found, Found):
                return found
            at = first.start() + 1
        return len(text) if final else self._settled(text)

    def at(self, text: str, at: int, final: bool, prior: Any = None, without: Any = None) -> Found | object | None:
        """The marker that stands at `at`; MORE if one may; None if none does.

        A marker that means `prior` counts before all others, those that mean `without` not at all.
        """
        best: Found | None = None
        open_end = False
        for first, patterns in self._by_first.items():
            if not text.startswith(first, at):
                open_end = open_end or (not final and first.startswith(text[at:]))
                continue
            for pattern, meaning in patterns:
                if without is not None and meaning == without:
                    continue
                found = match(pattern, text, at, final)
                open_end = open_end or found is MORE
                if isinstance(found, Match) and prior is not None and meaning == prior:
                    return Found(at, found.end, meaning)
                if isinstance(found, Match) and (best is None or found.end > best.end):
                    best = Found(at, found.end, meaning)
        return MORE if open_end else best

    def _settled(self, text: str) -> int:
        tail = text[-self._longest :] if self._longest else ""
        if self._letters.isdisjoint(tail):
            return len(text)
        return len(text) - max(overlap(tail, first) for first in self._by_first)


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
