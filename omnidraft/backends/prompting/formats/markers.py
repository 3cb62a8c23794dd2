"""Finds the first of several markers in text that is still coming, and what of it may be given away meanwhile.

`ReaderMarks` are those of a `ChatFormat`: what a reader looks for where it stands in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.formats.attempt import Candidate
from omnidraft.backends.prompting.formats.events import Content, Event, Thoughts
from omnidraft.backends.prompting.formats.pattern import (
    ID,
    KEY,
    MORE,
    NAME,
    CallShape,
    ChatFormat,
    CodeArguments,
    JsonArguments,
    JsonCalls,
    LooseArguments,
    Match,
    NamedCalls,
    Pattern,
    TagArguments,
    atoms,
    ends,
    groups,
    is_tag,
    match,
    overlap,
)


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


# What templates only say in words, or leave to the reader: how models in circulation write thoughts and calls.
# Conventions, not models: many share each of these. A call so read must name a tool that was offered.


_TAG = re.compile(r"<[^<>\s{}'\"%]{1,40}>|\[/?[A-Z_]{3,30}\]")
_THINKS = re.compile(r"think|thought|reason", re.IGNORECASE)
_BEGINNINGS = {"END_": "START_", "end_of_": "begin_of_", "end▁of▁": "begin▁of▁", "end_": "begin_"}
_ENDINGS = re.compile("|".join(_BEGINNINGS))
# Markers of calls, and what closes them.
_WRAPPERS = (
    ("<tool_call>", "</tool_call>"), ("<tool_calls>", "</tool_calls>"), ("<TOOLCALL>", "</TOOLCALL>"),
    ("<|tool_call|>", "<|/tool_call|>"), ("<|tool_call|>", "</|tool_call|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<function_call>", "</function_call>"), ("<functioncall>", "</functioncall>"), ("[TOOL_CALLS]", ""),
    ("<|action_start|><|plugin|>", "<|action_end|>"), ("<|python_tag|>", ""), ("functools", ""),
    ("<|function_call|>", ""), ("<start_function_call>", "<end_function_call>"), ("<|tool_calls|>", "<|/tool_calls|>"),
    ("<tools>", "</tools>"), ("```tool_call", "```"), ("```tool_code", "```"),
)  # fmt: skip
_DEEPSEEK = (
    ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function", "<｜tool▁sep｜>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
)
_DEEPSEEK_CLOSERS = ("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")


def is_harmony(source: str) -> bool:
    """Whether answers are made of channels (see `harmony`)."""
    return all(marker in source for marker in ("<|channel|>", "<|message|>", "<|start|>"))


def thoughts(source: str, prompts: Sequence[str]) -> tuple[tuple[Pattern, ...], tuple[Pattern, ...]]:
    """What begins and ends thoughts, as far as the template's text or its prompts mention it; `<think>` if nothing."""
    tags = [tag for text in (*prompts, source) for tag in _TAG.findall(text) if _THINKS.search(tag)]
    for closer in tags:
        opener = _opener(closer)
        if opener is not None:
            return ((opener,),), ((closer,),)
    for opener in tags:
        if opener[1] not in "/|" and opener[0] == "<":
            return ((opener,),), ((f"</{opener[1:]}",),)
    return (("<think>",),), (("</think>",),)


def _opener(closer: str) -> str | None:
    """The marker that one which closes belongs to."""
    if "/" in closer[:3]:
        return closer.replace("/", "", 1)
    found = _ENDINGS.search(closer)
    return closer.replace(found[0], _BEGINNINGS[found[0]], 1) if found else None


def calls(source: str, alone: bool) -> tuple[CallShape, ...]:
    """Every known way to write a call; those whose markers the template mentions first.

    alone: nothing else is known, so that calls may also begin without any marker.
    """
    ends = dict.fromkeys(closer for _, closer in _WRAPPERS if closer)
    closers = tuple((closer,) for closer in (*ends, *_DEEPSEEK_CLOSERS, "</function>", "```", "]", ",", ";"))
    begins = sorted((opener for opener, _ in _WRAPPERS), key=lambda opener: opener not in source)
    marked = tuple(dict.fromkeys(tuple(atoms(opener)) for opener in begins))
    listed = tuple((*opener, "[") for opener in marked)
    tagged = tuple((*opener, "<function=") for opener in marked)
    parameter = TagArguments(("<parameter=", KEY), (">",), ("</parameter>",), "\n", "\n", None, ("</function>",))
    bodies: list[tuple[tuple[Pattern, ...], JsonCalls | NamedCalls]] = [
        ((*marked, *(((),) if alone else ())), JsonCalls()),
        ((*listed, ("[",), *marked), NamedCalls((NAME, "("), LooseArguments(")", "="))),
        ((*tagged, ("<function=",)), NamedCalls((NAME, ">"), parameter)),
        ((("<function=",),), NamedCalls((NAME, ">"), JsonArguments())),
        (_DEEPSEEK, NamedCalls((NAME, "```json"), JsonArguments())),
        (_DEEPSEEK, NamedCalls((NAME, "<｜tool▁sep｜>"), JsonArguments())),
        (marked, NamedCalls((NAME, "[ARGS]"), JsonArguments())),
        (marked, NamedCalls((NAME, "[CALL_ID]", ID, "[ARGS]"), JsonArguments())),
        (marked, NamedCalls((NAME,), JsonArguments())),
        ((("<|python_tag|>",),), NamedCalls((), CodeArguments())),
    ]
    return tuple(CallShape(openings, body, closers) for openings, body in bodies)


# What is told of an answer: content and thoughts as they come, without white space that means nothing.


class Told:
    """said: something of this part has been told; fresh: a call may begin here that nothing announces; line: what the
    last line of thoughts begins with."""

    def __init__(self) -> None:
        self.said, self.fresh, self.line = False, True, ""
        self._events: list[Event] = []
        self._spaces: list[str] = []
        self._marked = False  # white space in front means nothing any more

    def take(self) -> list[Event]:
        """What has been told since."""
        events, self._events = self._events, []
        return events

    def add(self, events: Sequence[Event]) -> None:
        self._events += events

    def begin_part(self) -> None:
        """Content begins behind a marker."""
        self.fresh = self._marked = True
        self.said, self._spaces = False, []

    def begin_thoughts(self) -> None:
        self.said, self._spaces, self.line = False, [], ""

    def go_on(self) -> None:
        """Content goes on: it has been told in another way."""
        self.said, self._spaces = True, []

    def space(self, text: str) -> None:
        """White space, told if content follows."""
        self._spaces.append(text)

    def say(self, text: str) -> None:
        """Content; white space in front of it counts only where nothing else stood before."""
        if not self.said:
            words = text.lstrip()
            if not words:
                self._spaces.append(text)
                return
            text = words if self._marked else "".join([*self._spaces, text])
            self._spaces = []
        if text:
            self.said, self.fresh = True, False
            self._events.append(Content(text))

    def think(self, text: str) -> None:
        """Thoughts, without the white space around them."""
        _, newline, line = text.rpartition("\n")
        self.line = (line if newline else self.line + line).lstrip()[:1]
        words = text.rstrip()
        if words:
            before = "".join(self._spaces) + words
            self._events.append(Thoughts(before if self.said else before.lstrip()))
            self.said, self._spaces = True, []
        self._spaces.append(text[len(words) :])
