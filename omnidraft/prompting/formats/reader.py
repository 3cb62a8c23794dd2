"""Reads an answer as it comes: pieces of text of any size in, thoughts, content and calls out.

The result does not depend on how the text was cut. What looks like a call and is none stays text. Knows nothing of
templates: a `ChatFormat` says what to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnidraft.prompting.formats.arguments import Held
from omnidraft.prompting.formats.calls import Candidate, Read, Tools, read_call
from omnidraft.prompting.formats.chat_format import (
    CallShape,
    ChatFormat,
    Event,
    JsonCalls,
    LooseArguments,
)
from omnidraft.prompting.formats.pattern import (
    MORE,
    NAME,
    Found,
    Markers,
    Match,
    Pattern,
    atoms,
    ends,
    groups,
    is_tag,
    match,
    skip_space,
)
from omnidraft.prompting.formats.told import Told

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


_PIECE = 4096  # characters looked at together, so that many vain attempts stay cheap
Step = Callable[[bool], None]


class AnswerReader:
    """tools: schemas of parameters by name; None where nobody said what may be called, so that anything may be.

    begun: what the prompt wrote of the answer already.
    """

    def __init__(self, form: ChatFormat, tools: Mapping[str, Any] | None = None, begun: str = "") -> None:
        self._form, self._tools = form, Tools(tools)
        self._marks = ReaderMarks(form, form.calls if tools is None or tools else ())
        self._told = Told()
        self._text = ""
        always = bool(form.thoughts.ends) and not form.thoughts.begins  # an answer begins with its thoughts
        self._step: Step = self._thoughts if always else self._content
        self._home: Step = self._content  # where text belongs that was no call after all
        self._candidates: Sequence[Candidate] = ()  # what the call may be that is held
        self._until = ""  # what must come before that is worth another look
        self._last: CallShape | None = None  # of the call that has just been read
        self._comma = False  # behind it
        self._refused = False  # no call begins at the very beginning of the text
        if begun:
            self._text = begun
            self._run(False)
            if self._step == self._content and all(map(is_tag, atoms(begun))):
                self._told = Told()  # the prompt's own words, of which the answer is no part
                self._told.begin_part()

    def feed(self, text: str) -> list[Event]:
        """What `text` completes."""
        for at in range(0, len(text), _PIECE):
            piece = text[at : at + _PIECE]
            self._text += piece
            if self._until in piece:
                self._run(False)
        return self._told.take()

    def finish(self, cut: bool = False) -> list[Event]:
        """What was held back at the end of the answer. cut: it did not end by itself: a call stays as far as it came,
        and the beginning of one that has no name yet is left out."""
        if cut and self._within_calls():
            found = (read_call(each, self._text, self._tools, True) for each in self._candidates)
            self._told.add([replace(each.call, whole=False) for each in found if isinstance(each, Read)][:1])
            self._text = ""
        self._run(True)
        return self._told.take()

    def _within_calls(self) -> bool:
        """Whether what is held back belongs to a call, as far as that can be told."""
        first = [str(opening[0]) for opening, _ in self._marks.marked_calls]
        marked = len(self._text) > 1 and any(mark.startswith(self._text) for mark in first)
        return marked or (self._step == self._calling and not self._doubted) or self._step == self._called

    @property
    def _doubted(self) -> bool:
        """Whether a call is held in the middle of a sentence of thoughts: it may only be spoken of."""
        return self._home == self._thoughts and bool(self._told.line)

    def _run(self, over: bool) -> None:
        while self._text:
            before = len(self._text), self._step, self._refused, self._told.fresh
            self._step(over)
            if (len(self._text), self._step, self._refused, self._told.fresh) == before:
                break

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        if count:
            self._refused = False
        return taken

    # Content and thoughts

    def _content(self, over: bool) -> None:
        if self._told.fresh and self._bare(over):
            return
        found = self._find(self._marks.in_content, over)
        self._told.say(self._take(found.start))
        if found.meaning is None:
            return
        if found.meaning is CALL:
            self._try(self._marks.marked_calls, self._content)
            return
        if found.meaning is CLOSED and self._last is None:
            self._told.say(self._take(found.length))
            return
        if found.meaning in (OVER, CLOSED):
            self._over(found.length, self._told.say, over)
            return
        marker = self._take(found.length)
        if found.meaning is THINK and self._told.said and "|" not in marker:
            self._told.say(marker)  # in the middle of an answer somebody writes about such a tag
        elif found.meaning is THINK:
            self._step = self._thoughts
            self._told.begin_thoughts()
        else:
            self._told.begin_part()

    def _thoughts(self, over: bool) -> None:
        found = self._find(self._marks.in_thoughts, over)
        self._told.think(self._take(found.start))
        if found.meaning is None:
            return
        if found.meaning is CALL:
            self._try(self._marks.marked_calls, self._thoughts)
            return
        if found.meaning is OVER:
            self._over(found.length, self._told.think, over)
            return
        marker = self._take(found.length)
        if found.meaning is THINK:  # once more, though the prompt has opened them
            self._told.think(marker if self._told.said else "")
            return
        self._step = self._content
        self._told.begin_part()

    def _find(self, markers: Markers, over: bool) -> Found:
        """The next marker. Where a call was tried in vain, another marker, or one character of text."""
        if not self._refused:
            return markers.find(self._text, over, CALL)
        found = markers.at(self._text, 0, over, None, without=CALL)
        if isinstance(found, Found):
            return found
        return Found(0, 0) if found is MORE else Found(1, 1)

    def _over(self, length: int, say: Callable[[str], None], over: bool) -> None:
        """What closes a turn means that only where nothing else follows."""
        at = skip_space(self._text, length)
        while at < len(self._text):
            found = self._marks.endings.at(self._text, at, over)
            if not isinstance(found, Found):
                if found is None:
                    say(self._take(length))
                return
            at = skip_space(self._text, found.end)
        if over:
            self._text = ""

    # Calls

    def _bare(self, over: bool) -> bool:
        """Whether it is being looked into if a call begins here that nothing announces."""
        start = skip_space(self._text, 0)
        if start == len(self._text):
            return False
        if self._skip_leftovers(start, over):
            return True
        self._told.fresh = False
        known = (*self._marks.marked_calls, *self._marks.bare_calls)
        candidates = [each for each in known if self._may_begin(each, start, over)]
        if candidates:
            self._told.space(self._take(start))
            self._try(candidates, self._content)
        return bool(candidates)

    def _skip_leftovers(self, start: int, over: bool) -> bool:
        """Past what stands in front of an answer and is none; whether that was done or may have to be."""
        found = self._marks.leftovers.at(self._text, start, over)
        word = self._form.word
        if isinstance(found, Found):
            self._take(found.end)
            self._told.begin_part()
        elif found is None and word and self._text.startswith(word, start):
            self._take(start + len(word))
            self._told.begin_part()
            self._told.fresh = False
        elif found is None:
            return bool(word) and not over and word.startswith(self._text[start:])
        return True

    def _may_begin(self, candidate: Candidate, start: int, over: bool) -> bool:
        opening, shape = candidate
        found = match(opening, self._text, start, over) if opening else Match(start)
        if not isinstance(found, Match):
            return found is MORE
        at = skip_space(self._text, found.end)
        if isinstance(shape.body, JsonCalls):
            return at == len(self._text) or self._text[at] in "{["
        return not self._tools.unknown

    def _try(self, candidates: Sequence[Candidate], home: Step) -> None:
        self._home, self._step, self._candidates = home, self._calling, candidates

    def _calling(self, over: bool) -> None:
        self._until = ""
        for candidate in self._candidates:
            found = read_call(candidate, self._text, self._tools, over)
            if isinstance(found, Held):
                self._until = found.until
                return
            if found is not None and found.lacks is None:
                self._broken(found.end)
                return
            if found is not None:
                self._read(found, candidate[1], over)
                return
        self._step, self._candidates, self._refused = self._home, (), True

    def _broken(self, end: int) -> None:
        """What never became a call is shown; in the middle of a thought it was only spoken of."""
        written, self._candidates = self._take(end), ()
        if self._doubted:
            self._told.think(written)
            self._step = self._thoughts
        else:
            self._told.show(written)
            self._step = self._content

    def _read(self, found: Read, shape: CallShape, over: bool) -> None:
        meant = self._is_meant(found.end, over) if self._doubted else True
        if meant is None:
            return
        written, self._candidates = self._take(found.end), ()
        if meant:
            self._told.add([replace(found.call, arguments=found.call.arguments + (found.lacks or ""))])
            self._last, self._comma, self._step = shape, False, self._called
        else:
            self._told.think(written)
            self._step = self._thoughts

    def _is_meant(self, end: int, over: bool) -> bool | None:
        """Whether a call in the middle of a thought is one: if what follows calls does follow. None: not known yet."""
        at = skip_space(self._text, end)
        if at == len(self._text):
            return True if over else None
        closer = self._marks.behind_call.at(self._text, at, over)
        opening = self._marks.in_thoughts.at(self._text, at, over)
        if MORE in (closer, opening):
            return None
        closed = isinstance(closer, Found) and is_tag(closer.meaning)
        return closed or (isinstance(opening, Found) and opening.meaning is not ANSWER)

    def _called(self, over: bool) -> None:
        """Behind a call: another one, what closes it, or content."""
        self._take(skip_space(self._text, 0))
        if not self._text:
            return
        candidates = [] if self._refused else self._following()
        if candidates:
            self._try(candidates, self._called)
            return
        closer = self._marks.behind_call.at(self._text, 0, over)
        if isinstance(closer, Found):
            self._comma = self._comma or closer.meaning in (",", ";")
            self._take(closer.end)
        elif closer is not MORE:
            self._step = self._content
            self._told.begin_part()

    def _following(self) -> list[Candidate]:
        """What another call may begin with here."""
        text, last = self._text, self._last
        assert last is not None
        found = [(opening, shape) for opening, shape in self._marks.marked_calls if _begins(opening, text)]
        if isinstance(last.body, JsonCalls):
            return [*found, ((), last)] if text[0] in "{[" else found
        first = next(iter(last.body.head), NAME)
        listed = self._comma or isinstance(last.body.arguments, LooseArguments)  # or just one below the other
        next_one = _begins((first,), text) if isinstance(first, str) else listed
        return [*found, ((), last)] if next_one else found


def _begins(opening: Pattern, text: str) -> bool:
    first = str(opening[0])
    return text.startswith(first) or first.startswith(text)
