"""The reader for an answer of a format, begun where the prompt ends; with that for answers made of channels, and what
stands around a reader where only JSON is wanted, or a call may come without its marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

from omnidraft.prompting.formats.calls import JsonCall, Tools, is_object, read_json
from omnidraft.prompting.formats.chat_format import (
    Arguments,
    CallBegun,
    CallBroken,
    CallEnded,
    ChatFormat,
    Content,
    Event,
    JsonCalls,
    Thoughts,
    collect,
)
from omnidraft.prompting.formats.pattern import (
    Incoming,
    Markers,
    Match,
    Steps,
    ends,
    last_match,
    match,
    resume,
    skip_space,
)
from omnidraft.prompting.formats.reader import AnswerReader, Told
from omnidraft.prompting.json_schema import fits

# Answers made of channels: `<|channel|>analysis<|message|>...<|end|><|start|>assistant...`. After OpenAI's description
# of the format (https://github.com/openai/harmony, docs/format.md): a message is a header of role, recipient and
# channel, then its content. `analysis` is thought, `final` the answer, `commentary` without a recipient what is said on
# the way; a message to `functions.NAME` is a call, on whatever channel.

# Thoughts begin, thoughts end, and an answer begins without any.
THOUGHT_MARKS = (
    "<|channel|>analysis<|message|>",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
)
_HEADER = Markers([(("<|message|>",), "message"), (("<|start|>",), "start")])
_ENDS = [(("<|end|>",), "end"), (("<|call|>",), "end"), (("<|return|>",), "end")]
_BODY = Markers([*_ENDS, (("<|start|>",), "start"), (("<|channel|>",), "channel")])
_TO = re.compile(r"to=([\w.\-:]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_HEADED = re.compile(r"<\|(?:channel|constrain)\|>\s*\w*|to=\S*|^\s*assistant\b")  # what headers are made of


class HarmonyReader:
    """Has the interface of `AnswerReader`."""

    def __init__(self, tools: Mapping[str, Any] | None = None, begun: str = "") -> None:
        self._tools = Tools(tools)
        self._told = Told()
        self._text = begun
        self._header: str | None = ""  # of the message that begins; None within one
        self._say: type[Thoughts] | type[Content] | None = None
        self._call: Steps | None = None
        self._source = Incoming()  # of the call

    def feed(self, text: str) -> list[Event]:
        self._text += text
        self._run(False)
        return self._told.take()

    def finish(self, cut: bool = False) -> list[Event]:
        if cut:
            self._call = None
            self._text = "" if self._text.startswith("<|") else self._text
            self._header = "" if self._header and _HEADED.search(self._header) else self._header
        self._run(True)
        return self._told.take()

    def _run(self, final: bool) -> None:
        while self._text or (final and self._call is not None):
            before = len(self._text), self._header is None
            (self._body if self._header is None else self._head)(final)
            if before == (len(self._text), self._header is None):
                break
        if final and self._header:  # which nothing came behind
            text = _HEADED.sub("", self._header) if "<|" in self._header else self._header
            self._told.add([Content(text.lstrip())] if text.strip() else [])
            self._header = ""

    def _head(self, final: bool) -> None:
        assert self._header is not None
        found = _HEADER.find(self._text, final)
        self._header += self._take(found.start)
        if not _may_head(self._header):
            self._text = self._header + self._text
            self._open("")
            return
        if found.meaning is None:
            return
        self._take(found.length)
        if found.meaning == "message":
            self._open(self._header)
        else:
            self._header = ""

    def _open(self, header: str) -> None:
        recipient = _TO.search(header)
        channels = _CHANNEL.findall(header)
        to = recipient[1] if recipient and recipient[1] not in ("assistant", "user") else ""
        self._header, self._call, self._say = None, None, None
        self._told.begin_thoughts()
        if to:
            name = self._tools.known(to)
            if name is not None and (to.startswith("functions.") or not self._tools.unknown):
                self._told.add([CallBegun(name)])
                self._source = Incoming()
                self._call = read_json(self._source, (), lambda piece: self._told.add([Arguments(piece)]))
            elif to.startswith("functions."):
                self._say = Content  # no such function
        else:
            self._say = Thoughts if channels[-1:] == ["analysis"] else Content

    def _body(self, final: bool) -> None:
        if self._call is not None:
            self._arguments(self._call, final)
            return
        found = _BODY.find(self._text, final)
        self._give(self._take(found.start))
        if found.meaning is not None:
            self._take(0 if found.meaning == "channel" else found.length)
            self._header = ""

    def _arguments(self, call: Steps, final: bool) -> None:
        self._source.add(self._text, final)
        self._text = ""
        whole = resume(call)
        if whole is None:
            return
        self._call, self._text = None, self._source.rest
        self._told.add([CallEnded() if whole else CallBroken(self._source.read)])
        self._say = None if whole else Content

    def _give(self, text: str) -> None:
        if self._say is Thoughts:
            self._told.think(text)
        elif self._say is Content and text:
            self._told.add([Content(text)])

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken


def _may_head(text: str) -> bool:
    """Whether a message's header may begin so: a role and a recipient, in front of the channel. An answer may have no
    header, and still be followed by a call that has one."""
    *words, last = text.partition("<|")[0].split() or [""]
    begun = last.startswith("to=") or "to=".startswith(last) or "assistant".startswith(last)
    return begun and all(word == "assistant" or word.startswith("to=") for word in words)


_BEGINS = re.compile(r"\s*(`{0,3}|```[a-z]*)")  # what may become a fence
_FENCE = re.compile(r"^\s*(```[a-z]*\s*)?")
_END = re.compile(r"\s*`{0,3}\s*\Z")
# A call without its template's marks: what may become one, up to the object's first key, and the whole of it.
_CALL_BEGINS = re.compile(
    r'\s*(?:```(?:\w*\Z|(?:json|tool_call)?\s*)|`{0,2})(?:\{\{?\s*(?:"(?P<key>\w*)(?P<closed>")?)?)?'
)
_CALL_CUT = re.compile(r"\s*(?:```(?:json|tool_call)?\s*)?(?P<object>\{.*)", re.DOTALL)
_CALL = re.compile(r"\s*(?P<fence>```(?:json|tool_call)?\s*)?(?P<object>\{.*\})(?(fence)\s*(?:```)?)\s*", re.DOTALL)


class Reader(Protocol):
    def feed(self, text: str) -> list[Event]: ...

    def finish(self, cut: bool = False) -> list[Event]: ...


def open_reader(
    form: ChatFormat, tools: Mapping[str, Any] | None, begun: str = "", *, only_json: bool = False
) -> Reader:
    """begun: what the prompt has of the answer. only_json: the answer must be JSON, whatever fence is around it."""
    reader: Reader = HarmonyReader(tools, begun) if form.harmony else AnswerReader(form, tools, begun)
    if only_json:
        return Unfenced(reader)
    return PlainCalls(reader, tools) if tools else reader


class Unfenced:
    """Content without a fence of Markdown around it and without white space at its ends."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._held = ""
        self._begun = False

    def feed(self, text: str) -> list[Event]:
        return self._cut(self._reader.feed(text))

    def finish(self, cut: bool = False) -> list[Event]:
        events = self._cut(self._reader.finish(cut))
        rest = _FENCE.sub("", self._held) if not self._begun else self._held
        rest = rest.rstrip().removesuffix("```").rstrip()
        self._held = ""
        return [*events, *([Content(rest)] if rest else [])]

    def _cut(self, events: list[Event]) -> list[Event]:
        found: list[Event] = []
        for event in events:
            if not isinstance(event, Content):
                found.append(event)
                continue
            self._held += event.text
            if not self._begun and not _BEGINS.fullmatch(self._held):
                self._held = _FENCE.sub("", self._held)
                self._begun = True
            if self._begun:
                text = _END.sub("", self._held)
                self._held = self._held[len(text) :]
                found += [Content(text)] if text else []
        return found


class PlainCalls:
    """Content that is nothing but one JSON object is a call where it names a tool and has arguments that fit: models
    forget the marks that their template puts around a call, or write a fence in their place. Only what may still
    become one is held back."""

    def __init__(self, reader: Reader, tools: Mapping[str, Any]) -> None:
        self._reader, self._tools = reader, Tools(tools)
        self._held: str | None = ""  # None: the answer is no such call

    def feed(self, text: str) -> list[Event]:
        return self._part(self._reader.feed(text))

    def finish(self, cut: bool = False) -> list[Event]:
        events, held = self._part(self._reader.finish(cut)), self._held or ""
        call = _plain_call(held, self._tools) or (_cut_call(held, self._tools) if cut else [])
        return [*events, *(call or self._let_go())]

    def _part(self, events: list[Event]) -> list[Event]:
        found: list[Event] = []
        for event in events:
            if isinstance(event, Content) and self._held is not None:
                self._held += event.text
                found += [] if _may_call(self._held) else self._let_go()
            else:
                found += self._let_go() if self._held or not isinstance(event, Thoughts) else []
                found.append(event)
        return found

    def _let_go(self) -> list[Event]:
        held, self._held = self._held, None
        return [Content(held)] if held else []


_PLAIN = JsonCalls()
_KEYS = JsonCall(_PLAIN, Tools(None), lambda _: None).expected


def _may_call(text: str) -> bool:
    begun = _CALL_BEGINS.match(text)
    return begun is not None and (begun["key"] in _KEYS if begun["closed"] else begun.end() == len(text))


def _plain_call(text: str, tools: Tools) -> list[Event]:
    """The call that is all of this text; nothing if it is none."""
    whole, events = _CALL.fullmatch(text), list[Event]()
    if whole is None:
        return []
    written = whole["object"]
    single = written.replace("{{", "{").replace("}}", "}")
    call, source = JsonCall(_PLAIN, tools, events.append), Incoming(written, True)
    if not resume(call.read(source)) or source.rest or not call.given:
        return []
    if not any(map(is_object, (written, written[1:-1], single))):  # reading calls is less strict
        return []
    (read,) = collect(events).calls
    return events if fits(json.loads(read.arguments), tools.schema(read.name)) else []


def _cut_call(text: str, tools: Tools) -> list[Event]:
    """The call as far as it came; nothing before its name is known."""
    begun, events = _CALL_CUT.fullmatch(text), list[Event]()
    if begun is None:
        return []
    call = JsonCall(_PLAIN, tools, events.append)
    failed = resume(call.read(Incoming(begun["object"]))) is False
    return events if call.begun and not failed else []


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
