"""Messages with tools in them, as chat templates read them, and as plain text for templates that know no tools.

A conversation's last message may carry "tools" (OpenAI's list of function descriptions): what may be called in
answering it. Assistant messages may carry "tool_calls", and messages of the role "tool" bring results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

PROBE = "probe_of_tool_support"
_PROBE_PARAMETERS = {"type": "object", "properties": {"c": {"type": "string", "description": "d"}}, "required": ["c"]}
_PROBE_FUNCTION = {"name": PROBE, "description": "b", "parameters": _PROBE_PARAMETERS}
PROBE_MESSAGES = [{"role": "user", "content": "a", "tools": [{"type": "function", "function": _PROBE_FUNCTION}]}]


def uses_tools(messages: Sequence[Mapping[str, Any]]) -> bool:
    return bool(messages) and (
        bool(messages[-1].get("tools")) or any(m["role"] == "tool" or m.get("tool_calls") for m in messages)
    )


def with_calls(message: Mapping[str, Any], flat: dict[str, str]) -> dict[str, Any]:
    """`flat` with what the template needs of calls and results; arguments as values, for templates write the JSON."""
    rich: dict[str, Any] = dict(flat)
    if message.get("tool_calls"):
        rich["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {**call["function"], "arguments": _arguments(call)}}
            for call in message["tool_calls"]
        ]
    for name in ("tool_call_id", "name"):
        if message["role"] == "tool" and message.get(name):
            rich[name] = str(message[name])
    return rich


def as_text(message: Mapping[str, Any], flat: dict[str, str]) -> dict[str, str]:
    """The same for a template without tools: calls as JSON in the answer, results as what the user says."""
    if message["role"] == "tool":
        return {"role": "user", "content": flat["content"]}
    calls = [
        json.dumps({"name": call["function"]["name"], "arguments": _arguments(call)}, ensure_ascii=False)
        for call in message.get("tool_calls") or ()
    ]
    return {"role": flat["role"], "content": "\n".join(filter(None, [flat["content"], *calls]))}


def _arguments(call: Mapping[str, Any]) -> Any:
    given = call["function"].get("arguments") or {}
    return json.loads(given) if isinstance(given, str) else given


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every string in it changed, names of entries included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mapped(inner, change) for inner in value]
    return value


def strings(value: Any) -> Iterator[str]:
    """Every string in nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        yield from _all(value.values())
    elif isinstance(value, (list, tuple)):
        yield from _all(value)


def _all(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from strings(value)
