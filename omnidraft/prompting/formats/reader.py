"""Reads an answer as it comes: pieces of text of any size in, thoughts, content and calls out.

The result does not depend on how the text was cut. What looks like a call and is none stays text. Knows nothing of
templates: a `ChatFormat` says what to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omnidraft.prompting.formats.arguments import Read
from omnidraft.prompting.formats.calls import PLAIN, Candidate, Tools, read_call
from omnidraft.prompting.formats.chat_format import (
    Call,
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
    last_match,
    match,
    skip_space,
)

THINK, ANSWER, DROP, HIDE, CALL, OVER, CLOSED = "think", "answer", "drop", "hide", "call", "over", "closed"
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
        bare = dict.fromkeys(each for each in openings if not reads_anywhere(each[0]))
        self.bare_calls: list[Candidate] = [*bare, ((), PLAIN)] if shapes else []
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
        hidden = _all(HIDE, form.hidden.begins)
        self.in_content = Markers([*begins, *_all(DROP, drops), *hidden, *calls, *over, *behind])
        self.in_thoughts = Markers([*begins, *_all(ANSWER, (*thoughts.ends, *content.begins)), *hidden, *calls, *over])
        self.in_hidden = Markers(_all(DROP, form.hidden.ends))
        self.endings = Markers([*_all(OVER, turn_end), *behind])
        self.leftovers = Markers(_all(DROP, thoughts.ends))
        closers = {*thoughts.ends, *turn_end, *(closer for shape in shapes for closer in shape.closers)}
        self.behind_call = Markers([(closer, closer[0]) for closer in closers])


def _all(meaning: str, patterns: Any) -> list[tuple[Pattern, Any]]:
    return [(pattern, meaning) for pattern in patterns]


class Told:
    """What is told of an answer as it comes: content and thoughts without white space that means nothing.

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
Step = Callable[[bool], bool]  # over: no more will come; whether anything was read


class AnswerReader:
    """tools: schemas of parameters by name; begun: what the prompt wrote of the answer already."""

    def __init__(self, form: ChatFormat, tools: Mapping[str, Any], begun: str = "") -> None:
        self._form, self._tools = form, Tools(tools)
        self._marks = ReaderMarks(form, form.calls if tools else ())
        self._told = Told()
        self._text = begun
        always = bool(form.thoughts.ends) and not form.thoughts.begins  # an answer begins with its thoughts
        self._step: Step = self._thoughts if always else self._content
        self._held: Sequence[Candidate] = ()  # what the text may be from here on: a call that has not ended
        self._until = ""  # what must come before that is worth another look
        self._last: CallShape | None = None  # of the call that has just been read
        self._comma = False  # behind it
        self._run(False)
        if begun and self._step == self._content and all(map(is_tag, atoms(begun))):
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
        plain = bool(self._held) and self._held[0][1] is PLAIN
        if cut and self._within_calls():
            found = [read_call(each, self._text, self._tools, True) for each in self._held]
            calls = [Call(each.name, each.arguments, each.lacks == "") for each in found if each and each.name]
            self._told.add(calls[:1])
            self._text = self._text if plain and not calls else ""
        self._run(True)
        return self._told.take()

    def _within_calls(self) -> bool:
        """Whether what is held back belongs to a call, as far as that can be told."""
        first = [str(opening[0]) for opening, _ in self._marks.marked_calls]
        marked = len(self._text) > 1 and any(mark.startswith(self._text) for mark in first)
        return marked or bool(self._held and not self._doubted) or self._step == self._called

    def _run(self, over: bool) -> None:
        self._held, self._until = (), ""
        while self._text and self._step(over):
            pass

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken

    # Content and thoughts

    def _content(self, over: bool) -> bool:
        if self._told.fresh and (read := self._begin(over)) is not None:
            return read
        found = self._next(self._marks.in_content, self._told.say, over)
        if not isinstance(found, Found):
            return found
        if found.meaning is CLOSED and self._last is None:
            self._told.say(self._take(found.length))
            return True
        if found.meaning in (OVER, CLOSED):
            return self._over(found.length, self._told.say, over)
        marker = self._take(found.length)
        if found.meaning is THINK and self._told.said and "|" not in marker:
            self._told.say(marker)  # in the middle of an answer somebody writes about such a tag
        elif found.meaning is THINK:
            self._step = self._thoughts
            self._told.begin_thoughts()
        else:
            self._begin_content(found)
        return True

    def _begin_content(self, marker: Found) -> None:
        self._step = self._hidden if marker.meaning is HIDE else self._content
        self._told.begin_part()

    def _hidden(self, over: bool) -> bool:
        """In a message to somebody else."""
        found = self._marks.in_hidden.find(self._text, over)
        self._take(found.end)
        if found.meaning is not None:
            self._step = self._content
        return found.meaning is not None

    def _thoughts(self, over: bool) -> bool:
        found = self._next(self._marks.in_thoughts, self._told.think, over)
        if not isinstance(found, Found):
            return found
        if found.meaning is OVER:
            return self._over(found.length, self._told.think, over)
        marker = self._take(found.length)
        if found.meaning is THINK:  # once more, though the prompt has opened them
            self._told.think(marker if self._told.said else "")
        else:
            self._begin_content(found)
        return True

    def _next(self, markers: Markers, say: Callable[[str], None], over: bool) -> Found | bool:
        """The marker that stands here; where there is none, whether text was said or a call was read."""
        found = markers.find(self._text, over, CALL)
        say(self._take(found.start))
        if found.meaning is None:
            return False
        if found.meaning is not CALL:
            return found
        read = self._call(self._marks.marked_calls, over)
        if read is not None:
            return read
        other = markers.at(self._text, 0, over, without=CALL)
        if isinstance(other, Found):
            return other
        if other is None:
            say(self._take(1))
        return other is None

    def _over(self, length: int, say: Callable[[str], None], over: bool) -> bool:
        """What closes a turn means that only where nothing else follows."""
        at = skip_space(self._text, length)
        while at < len(self._text):
            found = self._marks.endings.at(self._text, at, over)
            if not isinstance(found, Found):
                if found is None:
                    say(self._take(length))
                return found is None
            at = skip_space(self._text, found.end)
        if over:
            self._text = ""
        return over

    def _begin(self, over: bool) -> bool | None:
        """Where an answer or a part of it begins, a call may, which nothing announces: whether one was read, or what is
        no answer; None if neither stands here."""
        start = skip_space(self._text, 0)
        if start == len(self._text):
            return None
        if (skipped := self._skip_leftovers(start, over)) is not None:
            return skipped
        self._told.space(self._take(start))
        bare = self._marks.bare_calls if self._last is None else self._marks.bare_calls[:-1]
        read = self._call([*self._marks.marked_calls, *bare], over)
        if read is None:
            self._told.fresh = False
        return read

    def _skip_leftovers(self, start: int, over: bool) -> bool | None:
        """Past what stands in front of an answer and is none; None if nothing does."""
        found, word = self._marks.leftovers.at(self._text, start, over), self._form.word
        if isinstance(found, Found):
            self._take(found.end)
            self._told.begin_part()
            return True
        if found is None and word and self._text.startswith(word, start):
            self._take(start + len(word))
            self._told.begin_part()
            self._told.fresh = False
            return True
        waits = found is MORE or (bool(word) and not over and word.startswith(self._text[start:]))
        return False if waits else None

    # Calls

    def _call(self, candidates: Sequence[Candidate], over: bool) -> bool | None:
        """Whether a call that begins here was read, or is held; None if there is none."""
        for at, candidate in enumerate(candidates):
            found = read_call(candidate, self._text, self._tools, over)
            if found is None or (over and found.lacks is None):
                continue
            if not over and found.lacks != "":
                self._held, self._until = candidates[at:], found.until
                return False
            return self._read(found, candidate[1], over)
        return None

    @property
    def _doubted(self) -> bool:
        """Whether a call here, in the middle of a sentence of thoughts, may only be spoken of."""
        return self._step == self._thoughts and bool(self._told.line)

    def _read(self, found: Read, shape: CallShape, over: bool) -> bool:
        """A call; in the middle of a thought it is one if what follows calls does follow."""
        at = skip_space(self._text, found.end)
        closer = self._marks.behind_call.at(self._text, at, over)
        opening = self._marks.in_thoughts.at(self._text, at, over)
        ended = at == len(self._text)
        if self._doubted and not over and (ended or MORE in (closer, opening)):
            return False
        closed = isinstance(closer, Found) and is_tag(closer.meaning)
        another = isinstance(opening, Found) and opening.meaning is not ANSWER
        written = self._take(found.end)
        if self._doubted and not (closed or another or ended):
            self._told.think(written)
        else:
            self._told.add([Call(found.name, found.arguments + (found.lacks or ""))])
            self._last, self._comma, self._step = shape, False, self._called
        return True

    def _called(self, over: bool) -> bool:
        """Behind a call: another one, what closes it, or content."""
        self._take(skip_space(self._text, 0))
        if not self._text:
            return False
        read = self._call(self._following(), over)
        if read is not None:
            return read
        closer = self._marks.behind_call.at(self._text, 0, over)
        if isinstance(closer, Found):
            self._comma = self._comma or closer.meaning in (",", ";")
            self._take(closer.end)
        elif closer is None:
            self._step = self._content
            self._told.begin_part()
        return closer is not MORE

    def _following(self) -> list[Candidate]:
        """What another call may be here."""
        last = self._last
        assert last is not None
        found = list(self._marks.marked_calls)
        if isinstance(last.body, JsonCalls):
            return [*found, ((), last)]
        first = next(iter(last.body.head), NAME)
        listed = self._comma or isinstance(last.body.arguments, LooseArguments)  # or just one below the other
        return [*found, ((), last)] if listed or isinstance(first, str) else found


def begun_text(form: ChatFormat, prompt: str) -> str:
    """What stands in `prompt` behind the last beginning of an answer; behind the first where that begins it.

    All of it where no answer begins there: then it is a part of one.
    """
    if not form.header:
        return prompt
    for header in (*ends(form.header), form.header[-1:]):
        found = match(header, prompt, skip_space(prompt, 0), True)
        if isinstance(found, Match):
            return prompt[skip_space(prompt, found.end) :]
    found = last_match(form.header, prompt)
    return prompt if found is None else prompt[skip_space(prompt, found.end) :]
