"""Answers with what must be read from them: how many are read so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnidraft.backends.prompting.formats.events import Event, Reading, collect
from omnidraft.backends.prompting.formats.open import begun_text, open_reader
from omnidraft.backends.prompting.formats.shapes import ChatFormat


def schemas(tools: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Parameters by name, of tools as the API has them or plainly as name and parameters."""
    found = {}
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters") or {}
        found[str(function["name"])] = json.loads(parameters) if isinstance(parameters, str) else parameters
    return found


def read(
    form: ChatFormat, text: str, tools: Mapping[str, Any] | None, prompt: str = "", *, size: int = 0,
    whole: bool = True, only_json: bool = False,
) -> Reading:  # fmt: skip
    """What `text` says behind `prompt`, given in pieces of `size` characters (0: at once)."""
    reader = open_reader(form, tools, begun_text(form, prompt), only_json=only_json)
    events: list[Event] = []
    for at in range(0, len(text), size or len(text) or 1):
        events += reader.feed(text[at : at + (size or len(text))])
    return collect(events + reader.finish() if whole else events)


def read_case(form: ChatFormat, case: Mapping[str, Any], size: int = 0) -> Reading:
    tools = schemas(case.get("tools") or ())
    return read(
        form, case["input"], tools, case.get("genprompt") or "", size=size, whole=not case.get("partial"),
        only_json=bool(case.get("schema")),
    )  # fmt: skip


def counts(case: Mapping[str, Any]) -> bool:
    """Whether the answer is complete, and its thoughts are to be taken out."""
    return not case.get("partial") and case.get("rf", 1) != 0


def differences(reading: Reading, case: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What was read otherwise than expected: (read, expected) by field."""
    got = {
        "reasoning": reading.reasoning, "content": reading.content,
        "calls": [(call.name, _value(call.arguments)) for call in reading.calls],
    }  # fmt: skip
    wanted = {
        "reasoning": case["reasoning"] or "", "content": case["content"] or "",
        "calls": [(call["name"], _value(call["arguments"])) for call in case["calls"]],
    }  # fmt: skip
    return {name: (got[name], wanted[name]) for name in got if got[name] != wanted[name]}


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
