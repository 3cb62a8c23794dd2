"""Reads one call behind what opened it: first its name, which must be a tool's, then its arguments. `Attempt` tries
that where a call may begin; what turns out to be none is given back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from omnidraft.backends.prompting.formats.chat_format import (
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
from omnidraft.backends.prompting.formats.json_values import JsonScan, Path, Say, dump
from omnidraft.backends.prompting.formats.pattern import MORE, Match, Pattern, match, skip_space
from omnidraft.backends.prompting.formats.tag_arguments import LooseReader, TagReader

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


class CodeReader:
    """Everything up to the end of the answer."""

    def __init__(self, parameter: str | None, say: Say) -> None:
        self.done, self.failed = False, parameter is None
        self._said = False
        self._parameter, self._say = parameter or "", say

    def feed(self, text: str, at: int, final: bool) -> int:
        if self.failed:
            return at
        if not self._said:
            self._say("{" + dump(self._parameter) + ': "')
            self._said = True
        if at < len(text):
            self._say(dump(text[at:])[1:-1])
        if final:
            self._say('"}')
            self.done = True
        return len(text)


class JsonReader:
    """One JSON object, or none in front of one of the `closers` of a call without arguments.

    code: the parameter that a program's text behind a line's end is, in place of an object.
    """

    def __init__(self, closers: tuple[Pattern, ...], say: Say, code: str | None = None) -> None:
        self.done = self.failed = False
        self._closers, self._say = closers, say
        self._scan: JsonScan | None = None
        self._code = code
        self._program: CodeReader | None = None
        self._said = 0

    def feed(self, text: str, at: int, final: bool) -> int:
        if self._program is not None:
            at = self._program.feed(text, at, final)
            self.done = self._program.done
            return at
        if self._scan is None:
            start = skip_space(text, at)
            if start == len(text) and not final:
                return at
            if self._code is not None and text.startswith("\n", at) and not text.startswith("{", start):
                self._program = CodeReader(self._code, self._say)
                return self.feed(text, at + 1, final)
            if not text.startswith("{", start):
                return self._none(text, start, final)
            self._scan, at = JsonScan(frozenset(), frozenset(((),))), start
        at = self._scan.feed(text, at)
        parts = self._scan.texts[()]
        if len(parts) > self._said:
            self._say("".join(parts[self._said :]))
            self._said = len(parts)
        self.done = self._scan.done
        self.failed = self._scan.failed or (final and not self.done)
        if self.done:
            self.failed = not is_object("".join(parts))
        return at

    def _none(self, text: str, at: int, final: bool) -> int:
        """No object stands here: right where the call is closed."""
        found = [match(closer, text, at, final) for closer in self._closers]
        if any(isinstance(each, Match) for each in found):
            self._say("{}")
            self.done = True
        else:
            self.failed = MORE not in found
        return at


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


class ArgumentReader(Protocol):
    """Fed text, it says the JSON text of an object as it grows. `feed` returns where it stopped; then `done` or
    `failed` is set, or more text is needed. At the end of the answer `final` is true."""

    done: bool
    failed: bool

    def feed(self, text: str, at: int, final: bool) -> int: ...


class CallReader(ArgumentReader, Protocol):
    """begun: the name was told, so that the call is one even if it breaks off."""

    begun: bool


class NamedCall:
    """A call whose name stands outside of its arguments."""

    def __init__(self, body: NamedCalls, closers: tuple[Pattern, ...], tools: Tools, tell: Tell) -> None:
        self.done = self.failed = self.begun = False
        self._closers = closers
        self._body, self._tools, self._tell = body, tools, tell
        self._call = CallBegun("")
        self._arguments: ArgumentReader | None = None

    def feed(self, text: str, at: int, final: bool) -> int:
        if self._arguments is None:
            found = match(self._body.head, text, at, final)
            if found is MORE:
                return at
            name = self._name(found) if isinstance(found, Match) else None
            if name is None or not isinstance(found, Match):
                self.failed = True
                return at
            self._call, at = CallBegun(name, found.gaps.get("id", "")), found.end
            self._arguments = self._reader(self._tools.schema(name), name)
        at = self._arguments.feed(text, at, final)
        self.done, self.failed = self._arguments.done and not self._arguments.failed, self._arguments.failed
        if self.done:
            self._tell(CallEnded())
        return at

    def _name(self, found: Match) -> str | None:
        if not found.gaps:
            return next((name for name in CODE_TOOLS if self._tools.schema(name)), None)
        return self._tools.known(found.gaps.get("name", found.gaps.get("id", "")))

    def _reader(self, schema: Any, name: str) -> ArgumentReader:
        shape, code = self._body.arguments, code_parameter(name, schema)
        if isinstance(shape, CodeArguments):
            return CodeReader(code, self._say)
        if isinstance(shape, TagArguments):
            return TagReader(shape, schema, self._say)
        if isinstance(shape, LooseArguments):
            return LooseReader(shape, schema, self._say)
        return JsonReader(self._closers, self._say, code)

    def _say(self, piece: str) -> None:
        """Arguments, and before them that there is a call: a name alone may be anything."""
        if not self.begun:
            self._tell(self._call)
            self.begun = True
        self._tell(Arguments(piece))


class JsonCall:
    """A call that is one JSON object. Arguments are told from where both they and the name are known.

    Braces may be doubled, the object's own or all of them, as some templates show their models how calls are written.
    given: there were arguments.
    """

    def __init__(self, body: JsonCalls, tools: Tools, tell: Tell) -> None:
        self.done = self.failed = self.begun = False
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

    def feed(self, text: str, at: int, final: bool) -> int:
        if not self._scan.started:
            self.failed = not text.startswith("{", at)
            if self.failed or (at + 1 == len(text) and not final):
                return at
            self._doubled = text.startswith("{{", at)
            at += self._doubled
        at = self._scan.feed(text, at)
        if not self._check_name():
            self.failed = True
            return at
        if self.begun:
            self._tell_arguments()
        if self._scan.done and self._doubled:
            closer = skip_space(text, at)
            if closer == len(text) and not final:
                return at
            at = closer + 1 if text.startswith("}", closer) else at
        if self._scan.done and not self.failed:
            self._end()
        self.failed = self.failed or self._scan.failed or (final and not self.done)
        return at

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

    def _end(self) -> None:
        text = "".join(self._scan.texts.get(self._place, ())) if self._place is not None else ""
        if not self._told:
            text = _inner(text)
            if self._doubled and not is_object(text):
                text = text.replace("{{", "{").replace("}}", "}")
            self._tell(Arguments(text))
        self.failed = not is_object(text)
        self.done = not self.failed
        if self.done:
            self._tell(CallEnded())


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

    done: a call was read, `rest` is what stands behind it; failed: there is none; broken: it had begun and never ended.
    """

    def __init__(self, candidates: Sequence[Candidate], tools: Tools) -> None:
        self.done = self.failed = self.broken = False
        self.shape = candidates[0][1]
        self.rest = ""
        self._candidates, self._tools = list(candidates), tools
        self._raw: list[str] = []
        self._events: list[Event] = []
        self._reader: CallReader | None = None
        self._next()

    def feed(self, text: str, final: bool) -> list[Event]:
        self._raw.append(text)
        self.rest += text
        while not (self.done or self.failed or self.broken):
            if self._reader is None and not self._open(final):
                break
            if self._reader is not None and not self._read(self._reader, final):
                break
        events = self._events[:]
        self._events.clear()
        return events

    @property
    def raw(self) -> str:
        """All that was read of the call."""
        whole = "".join(self._raw)
        return whole[: len(whole) - len(self.rest)]

    def _open(self, final: bool) -> bool:
        """Past what leads to the call; False if more text is needed for it."""
        found = match(self._opening, self.rest, 0, final) if self._opening else Match(0)
        if found is MORE:
            return False
        if not isinstance(found, Match):
            self._next()
            return True
        start, body = skip_space(self.rest, found.end), self.shape.body
        if isinstance(body, JsonCalls):
            start = skip_space(self.rest, start + 1) if self.rest.startswith("[", start) else start
        if start == len(self.rest):
            if final:
                self._next()
            return final
        self.rest = self.rest[start:]
        tell = self._events.append
        if isinstance(body, JsonCalls):
            self._reader = JsonCall(body, self._tools, tell)
        else:
            self._reader = NamedCall(body, self.shape.closers, self._tools, tell)
        return True

    def _read(self, reader: CallReader, final: bool) -> bool:
        stop = reader.feed(self.rest, 0, final)
        self.rest = self.rest[stop:]
        self.done = reader.done
        if reader.failed:
            self.broken = reader.begun
            if not reader.begun:
                self._next()
        return reader.done or reader.failed

    def _next(self) -> None:
        """On to the next candidate, from the beginning."""
        self._reader = None
        self.rest = "".join(self._raw)
        self.failed = not self._candidates
        if self._candidates:
            self._opening, self.shape = self._candidates.pop(0)
