"""The reader for an answer of a format, begun where the prompt ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from omnidraft.backends.prompting.formats.events import Event
from omnidraft.backends.prompting.formats.harmony import HarmonyReader
from omnidraft.backends.prompting.formats.pattern import Match, ends, match, skip_space
from omnidraft.backends.prompting.formats.reader import AnswerReader
from omnidraft.backends.prompting.formats.shapes import ChatFormat


class Reader(Protocol):
    def feed(self, text: str) -> list[Event]: ...

    def finish(self) -> list[Event]: ...


def open_reader(form: ChatFormat, tools: Mapping[str, Any] | None, begun: str = "") -> Reader:
    """begun: what the prompt has of the answer."""
    return HarmonyReader(tools, begun) if form.harmony else AnswerReader(form, tools, begun)


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
    at = prompt.rfind(str(form.header[0]))
    while at >= 0:
        found = match(form.header, prompt, at, True)
        if isinstance(found, Match):
            return prompt[skip_space(prompt, found.end) :]
        at = prompt.rfind(str(form.header[0]), 0, at)
    return prompt
