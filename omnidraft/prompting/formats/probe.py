"""Renders a template with words in every place that can be told apart again, and cuts an answer out of the result.

The template is asked in several ways, as no two agree on where thoughts stand in a message, whether arguments are
values or JSON text, and what they refuse. Knows nothing of what the results mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
Render = Callable[..., str | None]

USER, CONTENT, THOUGHT, RESULT = "zquserqz", "zqcontentqz", "zqthoughtqz", "zqresultqz"
NAMES = ("zqtoolaqz", "zqtoolbqz")
IDS = ("zqida1qz0", "zqidb2qz0")  # nine letters and digits: some templates insist
KEYS = ("zqkeyaqz", "zqkeybqz")
TEXT, DIGITS = "zqvalueqz", 71234

THINKING = {"enable_thinking": True, "thinking": True}
SILENT = {"enable_thinking": False, "thinking": False}
# Parts of a message that were printed, not understood.
_PYTHON = re.compile(r"""['"]type['"]: ?['"](thinking|thoughts|text)""")
FIELDS = ("reasoning_content", "thinking", "reasoning", "thoughts", "thought", "reasoning_text")


@dataclass(frozen=True, slots=True)
class Way:
    """How calls are given: arguments as JSON text or as values, ids with or without the name in them."""

    as_text: bool
    named_id: bool
    options: Mapping[str, Any]


WAYS = [Way(text, named, options) for named in (False, True) for text in (False, True) for options in (THINKING, {})]


def call(index: int, arguments: Mapping[str, Any], way: Way) -> Message:
    given = json.dumps(arguments) if way.as_text else dict(arguments)
    id = named_id(index) if way.named_id else IDS[index]
    return {"id": id, "type": "function", "function": {"name": NAMES[index], "arguments": given}}


def result(call: Message) -> Message:
    return {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": RESULT}


def named_id(index: int) -> str:
    """An id as some models write it: all that their templates show of the name."""
    return f"functions.{NAMES[index]}:{index}"


def tools() -> list[Message]:
    value = {"type": "string", "description": "zq"}
    properties = {KEYS[0]: value, KEYS[1]: value}
    parameters = {"type": "object", "properties": properties, "required": []}
    return [{"type": "function", "function": {"name": n, "description": "zq", "parameters": parameters}} for n in NAMES]


class Probe:
    """Answers of one template. `render(messages, tools, add_generation_prompt, options)` is None where it refuses."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self.asked: Message = {"role": "user", "content": USER}

    def prompt(self, *, generation: bool, with_tools: bool = False, **options: Any) -> str | None:
        """What is behind the user's words."""
        return self._behind([self.asked], generation, with_tools, options)

    def answer(self, message: Message, *, with_tools: bool = False, **options: Any) -> str | None:
        """What is behind the user's words with an answer to them."""
        return self._behind([self.asked, {"role": "assistant", **message}], False, with_tools, options)

    def called(self, way: Way, *arguments: Mapping[str, Any], **fields: Any) -> str | None:
        """An answer that calls the tools with these arguments; None if the template leaves the calls out."""
        made = [call(index, each, way) for index, each in enumerate(arguments)]
        message = {"role": "assistant", "content": "", "tool_calls": made, **fields}
        text = self._behind([self.asked, message], False, True, way.options)
        if not fields and (text is None or NAMES[0] not in text):  # some show calls only where there is no content
            text = self._behind([self.asked, {**message, "content": None}], False, True, way.options)
        if text is None or NAMES[0] not in text:
            text = self._behind([self.asked, message, *map(result, made)], False, True, way.options)
            text = None if text is None or RESULT not in text else text[: text.find(RESULT)]
        return text if text is not None and NAMES[len(made) - 1] in text else None

    def _behind(
        self, messages: list[Message], generation: bool, with_tools: bool, options: Mapping[str, Any]
    ) -> str | None:
        """Some templates refuse conversations without tools, or tools."""
        for offered in (tools(), []) if with_tools else ([], tools()):
            text = self._render(messages, offered, generation, dict(options))
            if text is not None and USER in text and not _PYTHON.search(text):
                return text[text.rfind(USER) + len(USER) :]
        return None
