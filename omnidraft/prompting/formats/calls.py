"""Reads one call behind what opened it: first its name, which must be a tool's, then its arguments. `Attempt` tries
that where a call may begin; what turns out to be none is given back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from omnidraft.prompting.formats.chat_format import (
    Arguments,
    CallBegun,
    CallEnded,
    CallShape,
    CodeArguments,
    Event,
    JsonCalls,
    LooseArguments,
    NamedCalls,
    TagArguments,
)
from omnidraft.prompting.formats.json_values import JsonScan, Path, Say, dump
from omnidraft.prompting.formats.pattern import MORE, Incoming, Match, Pattern, Steps, match
from omnidraft.prompting.formats.tag_arguments import LooseReader, TagReader

# Arguments that are one JSON object behind the call's name, or a program's text in place of it. Some models write code
# for an interpreter as it stands, to the answer's end. After Meta's description of the code interpreter of Llama 3.1
# and later (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/) and MeetKai's of functionary
# (https://github.com/MeetKai/functionary).
CODE_TOOLS = ("python", "ipython", "code_interpreter")


def code_parameter(name: str, schema: Any) -> str | None:
    """The parameter that takes the code, if this is a tool that runs any: its only one, or `code`."""
    properties = schema.get("properties") if name in CODE_TOOLS and isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return None
    return next(iter(properties)) if len(properties) == 1 else "code" if "code" in properties else None


def read_code(source: Incoming, parameter: str | None, say: Say) -> Steps:
    """Everything up to the end of the answer."""
    if parameter is None:
        return False
    say("{" + dump(parameter) + ': "')
    while True:
        if piece := source.take(len(source.text)):
            say(dump(piece)[1:-1])
        if source.final:
            break
        yield
    say('"}')
    return True


def read_json(source: Incoming, closers: tuple[Pattern, ...], say: Say, code: str | None = None) -> Steps:
    """One JSON object, or none in front of one of the `closers` of a call without arguments.

    code: the parameter that a program's text behind a line's end is, in place of an object.
    """
    start = yield from source.past_space()
    if code is not None and source.text.startswith("\n", source.at) and not source.text.startswith("{", start):
        source.at += 1
        return (yield from read_code(source, code, say))
    source.at = start
    if not source.text.startswith("{", start):
        return (yield from _none(source, closers, say))
    scan, said = JsonScan(frozenset(), frozenset(((),))), 0
    parts = scan.texts[()]
    while True:
        source.at = scan.feed(source.text, source.at)
        if len(parts) > said:
            say("".join(parts[said:]))
            said = len(parts)
        if scan.done or scan.failed or source.final:
            return scan.done and is_object("".join(parts))
        yield


def _none(source: Incoming, closers: tuple[Pattern, ...], say: Say) -> Steps:
    """No object stands here: right where the call is closed."""
    while True:
        found = [match(closer, source.text, source.at, source.final) for closer in closers]
        if any(isinstance(each, Match) for each in found):
            say("{}")
            return True
        if MORE not in found:
            return False
        yield


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=int), dict)  # NaN, which JSON has not, is no int either
    except (ValueError, RecursionError):
        return False


Tell = Callable[[Event], None]
_OTHERS = frozenset(("type", "index", "id", "tool_call_id"))


class Tools:
    """What may be called: names with the schemas of their parameters. None: anything may."""

    def __init__(self, schemas: Mapping[str, Any] | None) -> None:
        self._schemas = schemas

    def known(self, name: str) -> str | None:
        """The tool's own name, as far as a model's decorations of it allow; None if there is no such tool."""
        plain = name.removeprefix("functions.")
        candidates = [name, plain, plain.partition(":")[0], plain.removesuffix(".call")]
        if self._schemas is None:
            return plain.partition(":")[0] or None
        return next((each for each in candidates if each in self._schemas), None)

    @property
    def unknown(self) -> bool:
        """Whether nobody said what may be called."""
        return self._schemas is None

    def schema(self, name: str) -> Any:
        return (self._schemas or {}).get(name)


class NamedCall:
    """A call whose name stands outside of its arguments.

    begun: the name was told, so that the call is one even if it breaks off.
    """

    def __init__(self, body: NamedCalls, closers: tuple[Pattern, ...], tools: Tools, tell: Tell) -> None:
        self.begun = False
        self._body, self._closers, self._tools, self._tell = body, closers, tools, tell
        self._call = CallBegun("")

    def read(self, source: Incoming) -> Steps:
        found = yield from source.match(self._body.head)
        name = self._name(found) if found is not None else None
        if found is None or name is None:
            return False
        self._call, source.at = CallBegun(name, found.gaps.get("id", "")), found.end
        whole = yield from self._arguments(source, self._tools.schema(name), name)
        if whole:
            self._tell(CallEnded())
        return whole

    def _name(self, found: Match) -> str | None:
        if not found.gaps:
            return next((name for name in CODE_TOOLS if self._tools.schema(name)), None)
        return self._tools.known(found.gaps.get("name", found.gaps.get("id", "")))

    def _arguments(self, source: Incoming, schema: Any, name: str) -> Steps:
        shape, code = self._body.arguments, code_parameter(name, schema)
        if isinstance(shape, CodeArguments):
            return read_code(source, code, self._say)
        if isinstance(shape, TagArguments):
            return TagReader(shape, schema, self._say).read(source)
        if isinstance(shape, LooseArguments):
            return LooseReader(shape, schema, self._say).read(source)
        return read_json(source, self._closers, self._say, code)

    def _say(self, piece: str) -> None:
        """Arguments, and before them that there is a call: a name alone may be anything."""
        if not self.begun:
            self._tell(self._call)
            self.begun = True
        self._tell(Arguments(piece))


class JsonCall:
    """A call that is one JSON object. Arguments are told from where both they and the name are known.

    Braces may be doubled, the object's own or all of them, as some templates show their models how calls are written.
    begun: as there; given: there were arguments.
    """

    def __init__(self, body: JsonCalls, tools: Tools, tell: Tell) -> None:
        self.begun = False
        self._body, self._tools, self._tell = body, tools, tell
        self._scan = (
            _KeyedScan(frozenset(), frozenset()) if body.keyed else JsonScan(body.names | body.ids, body.arguments)
        )
        self.expected = {path[0] for path in (*body.names, *body.arguments, *body.ids)} | body.others | _OTHERS
        self._place: Path | None = None
        self._told = 0
        self._doubled = False

    @property
    def given(self) -> bool:
        return self._place is not None

    def read(self, source: Incoming) -> Steps:
        if not source.text.startswith("{", source.at):
            return False
        while source.at + 1 == len(source.text) and not source.final:
            yield
        self._doubled = source.text.startswith("{{", source.at)
        source.at += self._doubled
        while not (self._scan.done or self._scan.failed):
            source.at = self._scan.feed(source.text, source.at)
            if not self._check_name():
                return False
            if self.begun:
                self._tell_arguments()
            if source.final:
                break
            if not (self._scan.done or self._scan.failed):
                yield
        if self._scan.failed or not self._scan.done:
            return False
        if self._doubled:
            closer = yield from source.past_space()
            source.at = closer + 1 if source.text.startswith("}", closer) else source.at
        return self._end()

    def _check_name(self) -> bool:
        """Whether it can still be a call; tells the name when it has come."""
        if self.begun:
            return True
        if self._body.keyed:
            found: str | None = next((path[0] for path in self._scan.keys if len(path) == 1), None)
        else:
            if any(path[0] not in self.expected for path in self._scan.keys):
                return False
            found = next((self._scan.strings[path] for path in self._body.names if path in self._scan.strings), None)
        if found is None:
            return not self._scan.done
        name = self._tools.known(found)
        if name is None:
            return False
        id = next((self._scan.strings[path] for path in self._body.ids if path in self._scan.strings), "")
        self._tell(CallBegun(name, id))
        self.begun = True
        return True

    def _tell_arguments(self) -> None:
        """Objects as they grow; a string with an object in it when it is whole."""
        if self._place is None:
            self._place = next(iter(self._scan.texts), None)
        parts = self._scan.texts.get(self._place, []) if self._place is not None else []
        first = next((part for part in parts if part and not part.isspace()), "")
        if first.lstrip()[:1] == "{" and len(parts) > self._told and not self._doubled:
            more = "".join(parts[self._told :])
            self._tell(Arguments(more if self._told else more.lstrip()))
            self._told = len(parts)

    def _end(self) -> bool:
        text = "".join(self._scan.texts.get(self._place, ())) if self._place is not None else ""
        if not self._told:
            text = _inner(text)
            if self._doubled and not is_object(text):
                text = text.replace("{{", "{").replace("}}", "}")
            self._tell(Arguments(text))
        whole = is_object(text)
        if whole:
            self._tell(CallEnded())
        return whole


class _KeyedScan(JsonScan):
    """Any first key is a name, and its value the arguments."""

    def _watches(self, place: Path) -> bool:
        return len(place) == 1 and not self.texts


def _inner(text: str) -> str:
    """The object in a string, or none at all where a model leaves arguments out."""
    text = text.strip()
    if not text or text in ("null", '""'):
        return "{}"
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


Candidate = tuple[Pattern, CallShape]


class Attempt:
    """candidates: what may stand here, in the order to try it. Then one of three is set, or more text is needed.

    done: a call was read, `source` goes on behind it; failed: there is none; broken: it had begun and never ended.
    """

    def __init__(self, candidates: Sequence[Candidate], tools: Tools) -> None:
        self.done = self.failed = self.broken = False
        self.shape = candidates[0][1]
        self.source = Incoming()
        self._tools = tools
        self._events: list[Event] = []
        self._steps = self._try(candidates)

    def feed(self, text: str, final: bool) -> list[Event]:
        self.source.add(text, final)
        next(self._steps, None)
        events = self._events[:]
        self._events.clear()
        return events

    def _try(self, candidates: Sequence[Candidate]) -> Iterator[None]:
        for opening, self.shape in candidates:
            reader = yield from self._open(opening)
            if reader is not None:
                self.done = yield from reader.read(self.source)
                self.broken = reader.begun and not self.done
                if self.done or self.broken:
                    return
            self.source.restart()
        self.failed = True

    def _open(self, opening: Pattern) -> Generator[None, None, NamedCall | JsonCall | None]:
        """What reads the call, behind what leads to it; None if that does not stand here."""
        source, body = self.source, self.shape.body
        found = yield from source.match(opening)
        if found is None:
            return None
        source.at = found.end
        start = yield from source.past_space()
        if isinstance(body, JsonCalls) and source.text.startswith("[", start):
            source.at = start + 1
            start = yield from source.past_space()
        if start == len(source.text):
            return None
        source.at = start
        if isinstance(body, JsonCalls):
            return JsonCall(body, self._tools, self._events.append)
        return NamedCall(body, self.shape.closers, self._tools, self._events.append)
