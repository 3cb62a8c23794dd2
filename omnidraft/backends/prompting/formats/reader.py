"""Reads an answer as it comes: pieces of text of any size in, thoughts, content and calls out.

The result does not depend on how the text was cut. What looks like a call and is none stays text. Knows nothing of
templates: a `ChatFormat` says what to look for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnidraft.backends.prompting.formats.attempt import Attempt, Candidate
from omnidraft.backends.prompting.formats.calls import Tools
from omnidraft.backends.prompting.formats.events import CallBroken, Content, Event, Thoughts
from omnidraft.backends.prompting.formats.markers import Found, Markers
from omnidraft.backends.prompting.formats.pattern import MORE, Match, atoms, ends, groups, is_tag, match, skip_space
from omnidraft.backends.prompting.formats.shapes import CallShape, ChatFormat, JsonCalls, LooseArguments, Pattern

THINK, ANSWER, DROP, CALL, OVER, CLOSED = "think", "answer", "drop", "call", "over", "closed"
_MOST = 8  # parts of what closes a turn
_PIECE = 4096  # characters looked at together, so that many vain attempts stay cheap
Step = Callable[[bool], None]


def reads_anywhere(opening: Pattern) -> bool:
    """Whether a call so opened is one in the middle of text too: `<tool_call>`, but not `[` or `{`."""
    first = opening[0] if opening else None
    return isinstance(first, str) and (is_tag(first) or len(first) > 2)


class AnswerReader:
    """tools: schemas of parameters by name; None where nobody said what may be called, so that anything may be.

    begun: what the prompt wrote of the answer already.
    """

    def __init__(self, form: ChatFormat, tools: Mapping[str, Any] | None = None, begun: str = "") -> None:
        self._form, self._tools = form, Tools(tools)
        self._shapes = form.calls if tools is None or tools else ()
        self._marked_calls, self._bare_calls = self._openings()
        self._events: list[Event] = []
        self._text = ""
        always = bool(form.thoughts.ends) and not form.thoughts.begins  # an answer begins with its thoughts
        self._step: Step = self._thoughts if always else self._content
        self._home: Step = self._content  # where text belongs that was no call after all
        self._attempt: Attempt | None = None
        self._doubted: list[Event] | None = None  # of a call that may be none, whose text is `_raw`
        self._raw = ""
        self._last: CallShape | None = None  # of the call that has just been read
        self._comma = False  # behind it
        self._fresh = True  # where a call may begin that nothing announces
        self._refused = False  # no call begins at the very beginning of the text
        self._marked = False  # white space in front means nothing any more
        self._said, self._spaces, self._line = False, list[str](), ""  # _line: of thoughts, the last one so far
        self._markers()
        if begun:
            self._text = begun
            self._run(False)
            if self._step == self._content and all(map(is_tag, atoms(begun))):
                self._events = []  # the prompt's own words, of which the answer is no part
                self._begin_part()

    def feed(self, text: str) -> list[Event]:
        """What `text` completes."""
        for at in range(0, len(text), _PIECE):
            self._text += text[at : at + _PIECE]
            self._run(False)
        return self._told()

    def finish(self) -> list[Event]:
        """What was held back at the end of the answer."""
        self._run(True)
        return self._told()

    def _told(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _openings(self) -> tuple[list[Candidate], list[Candidate]]:
        """What calls begin with anywhere, and what they begin with only where an answer or a part of it begins."""
        marked: dict[Candidate, None] = {}
        bare: dict[Candidate, None] = {}
        for shape in self._shapes:
            for opening in shape.openings:
                if not reads_anywhere(opening):
                    bare[opening, shape] = None
                for end in ends(opening):
                    if reads_anywhere(end):
                        marked[end, shape] = None
        return list(marked), list(bare)

    def _markers(self) -> None:
        form = self._form
        calls: list[tuple[Pattern, Any]] = [(opening[:1], CALL) for opening, _ in self._marked_calls]
        marks: list[tuple[Pattern, Any]] = [(begin, THINK) for begin in form.thoughts.begins]
        marks += [(pattern, DROP) for pattern in (*form.content.begins, *form.content.ends)]
        marks += [((drop,), DROP) for drop in form.drops]
        marks += [(form.header, DROP)] if form.header and is_tag(form.header[0]) else []
        last = self._shapes[0].closers if form.learned and self._shapes else ()  # a result's marker, say
        endings = [(end, OVER) for end in groups(form.turn_end[:_MOST])]
        behind = [(end, CLOSED) for end in last if "|" in str(end[0]) and end not in form.turn_end]
        over = [(end, meaning) for end, meaning in endings if is_tag(end[0])]
        closers = {closer for shape in self._shapes for closer in shape.closers}
        self._in_content = Markers([*marks, *calls, *over, *behind])
        answers = [(pattern, ANSWER) for pattern in (*form.thoughts.ends, *form.content.begins)]
        again = [(begin, THINK) for begin in form.thoughts.begins]
        self._in_thoughts = Markers([*again, *answers, *calls, *over])
        closers |= {*form.thoughts.ends, *groups(form.turn_end[:_MOST])}
        self._endings = Markers([*endings, *behind])
        self._leftovers = Markers([(end, DROP) for end in form.thoughts.ends])
        self._behind_call = Markers([(closer, closer[0]) for closer in closers])

    def _run(self, final: bool) -> None:
        while self._text or (final and (self._attempt is not None or self._doubted is not None)):
            before = len(self._text), self._step, self._refused, self._fresh
            self._step(final)
            if (len(self._text), self._step, self._refused, self._fresh) == before:
                break

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        if count:
            self._refused = False
        return taken

    # Content and thoughts

    def _content(self, final: bool) -> None:
        if self._fresh and self._bare(final):
            return
        found = self._find(self._in_content, final)
        if isinstance(found, int):
            self._say(self._take(found))
            return
        self._say(self._take(found.start))
        if found.meaning is CALL:
            self._try(self._marked_calls, self._content)
            return
        if found.meaning is CLOSED and self._last is None:
            self._say(self._take(found.end - found.start))
            return
        if found.meaning in (OVER, CLOSED):
            self._over(found.end - found.start, self._say, final)
            return
        marker = self._take(found.end - found.start)
        if found.meaning is THINK and self._said and "|" not in marker:
            self._say(marker)  # in the middle of an answer somebody writes about such a tag
        elif found.meaning is THINK:
            self._step = self._thoughts
            self._said, self._spaces, self._line = False, [], ""
        else:
            self._begin_part()

    def _thoughts(self, final: bool) -> None:
        found = self._find(self._in_thoughts, final)
        if isinstance(found, int):
            self._think(self._take(found))
            return
        self._think(self._take(found.start))
        if found.meaning is CALL:
            self._doubted = [] if self._line else None  # in the middle of a sentence it may only be spoken of
            self._try(self._marked_calls, self._thoughts)
            return
        if found.meaning is OVER:
            self._over(found.end - found.start, self._think, final)
            return
        marker = self._take(found.end - found.start)
        if found.meaning is THINK:  # once more, though the prompt has opened them
            self._think(marker if self._said else "")
            return
        self._step = self._content
        self._begin_part()

    def _find(self, markers: Markers, final: bool) -> Found | int:
        """The next marker. Where a call was tried in vain, another marker, or one character of text."""
        if not self._refused:
            return markers.find(self._text, final, CALL)
        found = markers.at(self._text, 0, final, None, without=CALL)
        if found is MORE:
            return 0
        return found if isinstance(found, Found) else 1

    def _over(self, length: int, say: Callable[[str], None], final: bool) -> None:
        """What closes a turn means that only where nothing else follows."""
        at = skip_space(self._text, length)
        while at < len(self._text):
            found = self._endings.at(self._text, at, final)
            if not isinstance(found, Found):
                if found is None:
                    say(self._take(length))
                return
            at = skip_space(self._text, found.end)
        if final:
            self._text = ""

    def _begin_part(self) -> None:
        self._fresh = self._marked = True
        self._said, self._spaces = False, []

    def _say(self, text: str) -> None:
        """Content; white space in front of it counts only where nothing else stood before."""
        if not self._said:
            words = text.lstrip()
            if not words:
                self._spaces.append(text)
                return
            text = words if self._marked else "".join([*self._spaces, text])
            self._spaces = []
        if text:
            self._said, self._fresh = True, False
            self._events.append(Content(text))

    def _think(self, text: str) -> None:
        """Thoughts, without the white space around them."""
        _, newline, line = text.rpartition("\n")
        self._line = (line if newline else self._line + line).lstrip()[:1]
        words = text.rstrip()
        if words:
            before = "".join(self._spaces) + words
            self._events.append(Thoughts(before if self._said else before.lstrip()))
            self._said, self._spaces = True, []
        self._spaces.append(text[len(words) :])

    # Calls

    def _bare(self, final: bool) -> bool:
        """Whether it is being looked into if a call begins here that nothing announces."""
        start = skip_space(self._text, 0)
        if start == len(self._text):
            return False
        skipped = self._skip_leftovers(start, final)
        if skipped is not None:
            return skipped
        self._fresh = False
        known = (*self._marked_calls, *self._bare_calls)
        candidates = [each for each in known if self._may_begin(each, start, final)]
        if candidates:
            self._spaces.append(self._take(start))
            self._try(candidates, self._content)
        return bool(candidates)

    def _skip_leftovers(self, start: int, final: bool) -> bool | None:
        """Past what stands in front of an answer and is none; True if that was done or may have to be."""
        found = self._leftovers.at(self._text, start, final)
        if isinstance(found, Found):
            self._take(found.end)
            self._begin_part()
        word = self._form.word
        if found is None and word and not final and word.startswith(self._text[start:]):
            return True
        if found is None and word and self._text.startswith(word, start):
            self._take(start + len(word))
            self._begin_part()
            self._fresh = False
            return True
        return None if found is None else True

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
            self._events += told
        else:
            self._doubted += told
        if not (attempt.done or attempt.failed or attempt.broken):
            return
        self._attempt, self._text = None, attempt.rest
        if attempt.failed:
            self._step, self._refused, self._doubted = self._home, True, None
        elif self._doubted is not None:
            self._raw, self._last, self._step = attempt.raw, attempt.shape, self._doubting
        elif attempt.broken:
            self._events.append(CallBroken(attempt.raw))
            self._step, self._said, self._spaces = self._content, True, []
        else:
            self._last, self._comma, self._step = attempt.shape, False, self._called

    def _doubting(self, final: bool) -> None:
        """Behind a call in the middle of a thought: it was one if what follows calls does follow."""
        start = skip_space(self._text, 0)
        if start == len(self._text) and not final:
            return
        closer = self._behind_call.at(self._text, start, final)
        opening = self._in_thoughts.at(self._text, start, final)
        if MORE in (closer, opening):
            return
        follows = (isinstance(closer, Found) and is_tag(closer.meaning)) or (
            isinstance(opening, Found) and opening.meaning is not ANSWER
        )
        if follows or start == len(self._text):
            self._events += self._doubted or []
            self._comma, self._step = False, self._called
        else:
            self._think(self._raw)
            self._step = self._thoughts
        self._doubted = None

    def _called(self, final: bool) -> None:
        """Behind a call: another one, what closes it, or content."""
        start = skip_space(self._text, 0)
        if start:
            self._take(start)
        if not self._text:
            return
        candidates = [] if self._refused else self._following()
        if candidates:
            self._try(candidates, self._called)
            return
        closer = self._behind_call.at(self._text, 0, final)
        if isinstance(closer, Found):
            self._comma = self._comma or closer.meaning in (",", ";")
            self._take(closer.end)
        elif closer is not MORE:
            refused = self._refused
            self._step = self._content
            self._begin_part()
            self._refused = refused

    def _following(self) -> list[Candidate]:
        """What another call may begin with here."""
        text, last = self._text, self._last
        assert last is not None
        found = [(opening, shape) for opening, shape in self._marked_calls if _begins(opening, text)]
        if isinstance(last.body, JsonCalls):
            return [*found, ((), last)] if text[0] in "{[" else found
        first = last.body.head[0]
        listed = self._comma or isinstance(last.body.arguments, LooseArguments)  # or just one below the other
        next_one = _begins((first,), text) if isinstance(first, str) else listed
        return [*found, ((), last)] if next_one else found


def _begins(opening: Pattern, text: str) -> bool:
    first = str(opening[0])
    return text.startswith(first) or first.startswith(text)
