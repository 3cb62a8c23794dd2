"""Reads an answer as it comes: pieces of text of any size in, thoughts, content and calls out.

The result does not depend on how the text was cut. What looks like a call and is none stays text. Knows nothing of
templates: a `ChatFormat` says what to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnidraft.prompting.formats.calls import Attempt, Candidate, Tools
from omnidraft.prompting.formats.chat_format import (
    CallBroken,
    CallShape,
    ChatFormat,
    Content,
    Event,
    JsonCalls,
    LooseArguments,
    Thoughts,
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


class Told:
    """What is told of an answer: content and thoughts as they come, without white space that means nothing.

    said: something of this part has been told; fresh: a call may begin here that nothing announces; line: what the last
    line of thoughts begins with.
    """

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
        self._attempt: Attempt | None = None
        self._doubted: list[Event] | None = None  # of a call that may be none, whose text is `_raw`
        self._raw = ""
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
            self._text += text[at : at + _PIECE]
            self._run(False)
        return self._told.take()

    def finish(self, cut: bool = False) -> list[Event]:
        """What was held back at the end of the answer. cut: it did not end by itself: a call stays as far as it came,
        and the beginning of one that has no name yet is left out."""
        if cut and self._doubted is None and self._within_calls():
            self._attempt, self._text = None, ""
        self._run(True)
        return self._told.take()

    def _within_calls(self) -> bool:
        """Whether what is held back belongs to a call, as far as that can be told."""
        first = [str(opening[0]) for opening, _ in self._marks.marked_calls]
        marked = len(self._text) > 1 and any(mark.startswith(self._text) for mark in first)
        return marked or self._attempt is not None or self._step == self._called

    def _run(self, final: bool) -> None:
        while self._text or (final and (self._attempt is not None or self._doubted is not None)):
            before = len(self._text), self._step, self._refused, self._told.fresh
            self._step(final)
            if (len(self._text), self._step, self._refused, self._told.fresh) == before:
                break

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        if count:
            self._refused = False
        return taken

    # Content and thoughts

    def _content(self, final: bool) -> None:
        if self._told.fresh and self._bare(final):
            return
        found = self._find(self._marks.in_content, final)
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
            self._over(found.length, self._told.say, final)
            return
        marker = self._take(found.length)
        if found.meaning is THINK and self._told.said and "|" not in marker:
            self._told.say(marker)  # in the middle of an answer somebody writes about such a tag
        elif found.meaning is THINK:
            self._step = self._thoughts
            self._told.begin_thoughts()
        else:
            self._told.begin_part()

    def _thoughts(self, final: bool) -> None:
        found = self._find(self._marks.in_thoughts, final)
        self._told.think(self._take(found.start))
        if found.meaning is None:
            return
        if found.meaning is CALL:
            self._doubted = [] if self._told.line else None  # in the middle of a sentence it may only be spoken of
            self._try(self._marks.marked_calls, self._thoughts)
            return
        if found.meaning is OVER:
            self._over(found.length, self._told.think, final)
            return
        marker = self._take(found.length)
        if found.meaning is THINK:  # once more, though the prompt has opened them
            self._told.think(marker if self._told.said else "")
            return
        self._step = self._content
        self._told.begin_part()

    def _find(self, markers: Markers, final: bool) -> Found:
        """The next marker. Where a call was tried in vain, another marker, or one character of text."""
        if not self._refused:
            return markers.find(self._text, final, CALL)
        found = markers.at(self._text, 0, final, None, without=CALL)
        if isinstance(found, Found):
            return found
        return Found(0, 0) if found is MORE else Found(1, 1)

    def _over(self, length: int, say: Callable[[str], None], final: bool) -> None:
        """What closes a turn means that only where nothing else follows."""
        at = skip_space(self._text, length)
        while at < len(self._text):
            found = self._marks.endings.at(self._text, at, final)
            if not isinstance(found, Found):
                if found is None:
                    say(self._take(length))
                return
            at = skip_space(self._text, found.end)
        if final:
            self._text = ""

    # Calls

    def _bare(self, final: bool) -> bool:
        """Whether it is being looked into if a call begins here that nothing announces."""
        start = skip_space(self._text, 0)
        if start == len(self._text):
            return False
        if self._skip_leftovers(start, final):
            return True
        self._told.fresh = False
        known = (*self._marks.marked_calls, *self._marks.bare_calls)
        candidates = [each for each in known if self._may_begin(each, start, final)]
        if candidates:
            self._told.space(self._take(start))
            self._try(candidates, self._content)
        return bool(candidates)

    def _skip_leftovers(self, start: int, final: bool) -> bool:
        """Past what stands in front of an answer and is none; whether that was done or may have to be."""
        found = self._marks.leftovers.at(self._text, start, final)
        word = self._form.word
        if isinstance(found, Found):
            self._take(found.end)
            self._told.begin_part()
        elif found is None and word and self._text.startswith(word, start):
            self._take(start + len(word))
            self._told.begin_part()
            self._told.fresh = False
        elif found is None:
            return bool(word) and not final and word.startswith(self._text[start:])
        return True

    def _may_begin(self, candidate: Candidate, start: int, final: bool) -> bool:
        opening, shape = candidate
        found = match(opening, self._text, start, final) if opening else Match(start)
        if not isinstance(found, Match):
            return found is MORE
        at = skip_space(self._text, found.end)
        if isinstance(shape.body, JsonCalls):
            return at == len(self._text) or self._text[at] in "{["
        return not self._tools.unknown

    def _try(self, candidates: list[Candidate], home: Step) -> None:
        self._home, self._step = home, self._calling
        self._attempt = Attempt(candidates, self._tools)

    def _calling(self, final: bool) -> None:
        attempt = self._attempt
        assert attempt is not None
        text, self._text = self._text, ""
        told = attempt.feed(text, final)
        if self._doubted is None:
            self._told.add(told)
        else:
            self._doubted += told
        if not (attempt.done or attempt.failed or attempt.broken):
            return
        self._attempt, self._text = None, attempt.source.rest
        if attempt.failed:
            self._step, self._refused, self._doubted = self._home, True, None
        elif self._doubted is not None and attempt.broken:
            self._told.think(attempt.source.read)
            self._step, self._doubted = self._thoughts, None
        elif self._doubted is not None:
            self._raw, self._last, self._step = attempt.source.read, attempt.shape, self._doubting
        elif attempt.broken:
            self._told.add([CallBroken(attempt.source.read)])
            self._step = self._content
            self._told.go_on()
        else:
            self._last, self._comma, self._step = attempt.shape, False, self._called

    def _doubting(self, final: bool) -> None:
        """Behind a call in the middle of a thought: it was one if what follows calls does follow."""
        start = skip_space(self._text, 0)
        if start == len(self._text) and not final:
            return
        closer = self._marks.behind_call.at(self._text, start, final)
        opening = self._marks.in_thoughts.at(self._text, start, final)
        if MORE in (closer, opening):
            return
        follows = (isinstance(closer, Found) and is_tag(closer.meaning)) or (
            isinstance(opening, Found) and opening.meaning is not ANSWER
        )
        if follows or start == len(self._text):
            self._told.add(self._doubted or [])
            self._comma, self._step = False, self._called
        else:
            self._told.think(self._raw)
            self._step = self._thoughts
        self._doubted = None

    def _called(self, final: bool) -> None:
        """Behind a call: another one, what closes it, or content."""
        self._take(skip_space(self._text, 0))
        if not self._text:
            return
        candidates = [] if self._refused else self._following()
        if candidates:
            self._try(candidates, self._called)
            return
        closer = self._marks.behind_call.at(self._text, 0, final)
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
