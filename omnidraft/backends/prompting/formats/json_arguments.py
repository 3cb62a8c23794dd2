"""Arguments that are one JSON object behind the call's name, or a program's text in place of it.

Some models write code for an interpreter as it stands, to the answer's end. After Meta's description of the code
interpreter of Llama 3.1 and later (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/) and MeetKai's
of functionary (https://github.com/MeetKai/functionary).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.formats.json_scan import JsonScan
from omnidraft.backends.prompting.formats.pattern import MORE, Match, match, skip_space
from omnidraft.backends.prompting.formats.shapes import Pattern
from omnidraft.backends.prompting.formats.values import Say, dump

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
        self.begun = self._said = False
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
        self._code = CodeReader(code, say) if code is not None else None
        self._said = 0

    def feed(self, text: str, at: int, final: bool) -> int:
        if self._code is not None and self._code.begun:
            at = self._code.feed(text, at, final)
            self.done = self._code.done
            return at
        if self._scan is None:
            start = skip_space(text, at)
            if start == len(text) and not final:
                return at
            if self._code is not None and text.startswith("\n", at) and not text.startswith("{", start):
                self._code.begun = True
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
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
