"""The reader for an answer of a format, begun where the prompt ends; and what stands around it where only JSON is
wanted, or a call may come without its marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from omnidraft.prompting.formats.calls import Read, Tools, expected_keys, json_call, places
from omnidraft.prompting.formats.chat_format import ChatFormat, Content, Event, JsonCalls, Thoughts
from omnidraft.prompting.formats.json_values import is_object
from omnidraft.prompting.formats.pattern import Match, ends, last_match, match, skip_space
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.prompting.json_schema import fits

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
    reader = AnswerReader(form, tools, begun)
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
_KEYS = expected_keys(_PLAIN)


def _may_call(text: str) -> bool:
    begun = _CALL_BEGINS.match(text)
    return begun is not None and (begun["key"] in _KEYS if begun["closed"] else begun.end() == len(text))


def _plain_call(text: str, tools: Tools) -> list[Event]:
    """The call that is all of this text; nothing if it is none."""
    whole = _CALL.fullmatch(text)
    if whole is None:
        return []
    written = whole["object"]
    single = written.replace("{{", "{").replace("}}", "}")
    found = json_call(written, 0, _PLAIN, tools, True)
    if not isinstance(found, Read) or found.lacks is None or found.end < len(written):
        return []
    if not any(map(is_object, (written, written[1:-1], single))):  # reading calls is less strict
        return []
    given, _ = places(written, written.startswith("{{"))
    fit = fits(json.loads(found.call.arguments), tools.schema(found.call.name))
    return [found.call] if fit and not _PLAIN.arguments.isdisjoint(given) else []


def _cut_call(text: str, tools: Tools) -> list[Event]:
    """The call as far as it came; nothing before its name is known."""
    begun = _CALL_CUT.fullmatch(text)
    found = json_call(begun["object"], 0, _PLAIN, tools, True) if begun is not None else None
    return [replace(found.call, whole=False)] if isinstance(found, Read) else []


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
