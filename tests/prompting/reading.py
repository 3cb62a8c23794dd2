"""A whole answer read at once, by the format of a template's text."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnidraft.prompting.formats.chat_format import ChatFormat, Event, Reading, collect
from omnidraft.prompting.formats.of_template import format_of
from omnidraft.prompting.formats.reader import AnswerReader, begun_text
from omnidraft.prompting.rendering import RENDERING


def format_of_source(source: str) -> ChatFormat:
    """jinja2.TemplateError if the template is not valid."""
    RENDERING.render(source, None)
    return format_of(source, (("bos_token", ""), ("eos_token", "")))


def schemas(tools: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Parameters by name, of tools as the API has them or plainly as name and parameters."""
    found = {}
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters") or {}
        found[str(function["name"])] = json.loads(parameters) if isinstance(parameters, str) else parameters
    return found


def read(
    form: ChatFormat, text: str, tools: Mapping[str, Any], prompt: str = "", *, size: int = 0,
    whole: bool = True,
) -> Reading:  # fmt: skip
    """What `text` says behind `prompt`, given in pieces of `size` characters (0: at once)."""
    reader = AnswerReader(form, tools, begun_text(form, prompt))
    events: list[Event] = []
    for at in range(0, len(text), size or len(text) or 1):
        events += reader.feed(text[at : at + (size or len(text))])
    return collect(events + reader.finish() if whole else events)
