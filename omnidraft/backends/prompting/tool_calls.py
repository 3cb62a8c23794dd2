"""How models write calls of tools: the common formats, and a reader for text as it streams in.

Formats: `<tool_call>{"name", "arguments"}</tool_call>` (Hermes, Qwen), a bare `{"name", "parameters"}` (Llama 3) and
`[TOOL_CALLS][{"name", "arguments"}]` or `[TOOL_CALLS]name{...}` (Mistral). Which one a model uses is told by its chat
template. Knows nothing of requests and of what calls lead to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.call_grammar import CallForm
from omnidraft.storage.json_text import read_json

_DECODER = json.JSONDecoder()
_NAMED = re.compile(r"\s*([\w.-]+)\s*(?:\[ARGS\])?\s*(?=\{)")


@dataclass(frozen=True, slots=True)
class Call:
    """One call. arguments: a JSON object, as text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """begin, end: what stands around a call ("" for nothing); key: what the arguments are called; listed: in a list."""

    begin: str
    end: str
    key: str = "arguments"
    listed: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.begin, self.end)))

    @property
    def written(self) -> CallForm:
        """How a call in this format is written."""
        before, behind = (self.begin + "[", "]") if self.listed else (self.begin, self.end)
        line = "\n" if self.end else ""
        return CallForm(f'{before}{line}{{"name": "', f'", "{self.key}": ', f"}}{line}{behind}", controls=self.markers)


HERMES = ToolFormat("<tool_call>", "</tool_call>")
MISTRAL = ToolFormat("[TOOL_CALLS]", "", listed=True)
LLAMA = ToolFormat("", "", key="parameters")


def format_of(template: str) -> ToolFormat:
    """The format that a chat template with tools teaches."""
    return next((f for f in (HERMES, MISTRAL) if f.begin in template), LLAMA)


class CallReader:
    """Parts calls from text, fed as it comes. What looks like a call but is none of the known `names` stays text.

    White space around calls is dropped; text that could be the beginning of a call is held back.
    """

    def __init__(self, form: ToolFormat, names: Sequence[str]) -> None:
        self._form = form
        self._names = set(names)
        self._held = ""
        self._begun = False  # something other than white space has been said
        self._inside = False

    def feed(self, text: str) -> list[str | Call]:
        """The text and calls that `text` completes."""
        self._held += text
        found: list[str | Call] = []
        while True:
            step = self._call(False) if self._inside else self._text()
            if step is None:
                return found
            found += step

    def finish(self) -> list[str | Call]:
        """What was held back at the end of the answer."""
        found = (self._call(True) or []) if self._inside else []
        rest, self._held = self._held, ""
        return [*found, *([rest] if rest.strip() else [])]

    def _text(self) -> list[str | Call] | None:
        """Text up to a call; None when more has to come."""
        begin = self._begin()
        if begin is None:
            return None
        shown, self._inside = (self._held, False) if begin < 0 else (self._held[:begin], True)
        self._held = "" if begin < 0 else self._held[begin:]
        if begin < 0:
            keep = self._open_end(shown)
            shown, self._held = shown[: len(shown) - keep], shown[len(shown) - keep :]
        elif not shown.strip():
            shown = ""
        self._begun = self._begun or bool(shown.strip())
        if not self._inside:
            return [shown] if shown else None
        return [shown.rstrip()] if shown.strip() else []

    def _begin(self) -> int | None:
        """Where a call begins in what is held; -1: nowhere; None: too early to tell."""
        if self._form.begin:
            return self._held.find(self._form.begin)
        if self._begun or not self._held.strip():
            return -1 if self._held.strip() else None
        first = len(self._held) - len(self._held.lstrip())
        return first if self._held[first] == "{" else -1

    def _open_end(self, text: str) -> int:
        """How many characters at the end may turn out to belong to a call."""
        blank = len(text) - len(text.rstrip())
        marker = self._form.begin
        part = next((n for n in range(len(marker) - 1, 0, -1) if text.endswith(marker[:n])), 0)
        before = text[: len(text) - part]
        return part + len(before) - len(before.rstrip()) if part else blank

    def _call(self, last: bool) -> list[str | Call] | None:
        """The calls that end in what is held; None when more has to come."""
        if self._form.end:
            stop = self._held.find(self._form.end)
            if stop < 0 and not last:
                return None
            whole = self._held if stop < 0 else self._held[: stop + len(self._form.end)]
            body = whole.removeprefix(self._form.begin).removesuffix(self._form.end)
        elif not last:
            return None
        else:
            whole, body = self._held, self._held.removeprefix(self._form.begin)
        self._held = self._held[len(whole) :]
        self._inside = False
        calls = read_calls(body, self._names)
        self._begun = True
        return list(calls) if calls else [whole]


def read_calls(text: str, names: set[str]) -> list[Call]:
    """The calls that `text` consists of; [] if it is not made of calls of `names` alone."""
    try:
        calls = list(_calls(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return calls if all(call.name in names for call in calls) else []


def _calls(text: str) -> Iterator[Call]:
    at = 0
    while text[at:].strip(" \t\r\n;,"):
        named = _NAMED.match(text, at)
        start = named.end() if named else at + len(text[at:]) - len(text[at:].lstrip(" \t\r\n;,"))
        value, at = _DECODER.raw_decode(text, start)
        if named:
            yield _call(named[1], value)
        else:
            for call in value if isinstance(value, list) else [value]:
                yield _call(call["name"], call.get("arguments", call.get("parameters", {})))


def _call(name: Any, arguments: Any) -> Call:
    if isinstance(arguments, str):
        arguments = read_json(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TypeError("not a call")
    return Call(name, json.dumps(arguments, ensure_ascii=False))
