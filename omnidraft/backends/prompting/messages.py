"""Messages as chat templates read them: plain strings, with calls and thoughts as fields where a template knows them.

A conversation's last message may carry "tools" (OpenAI's list of function descriptions): what may be called in
answering it. Assistant messages may carry "tool_calls" and "reasoning_content" (what was thought before they were
said), and messages of the role "tool" bring results. Knows no template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

Message = Mapping[str, Any]
Plain = dict[str, Any]

PROBE, PROBE_RESULT, _PROBE_VALUE = "probe_of_tool_support", "probe of a result", "probe of a value"
_PROBE_PARAMETERS = {"type": "object", "properties": {"c": {"type": "string", "description": "d"}}, "required": ["c"]}
_PROBE_FUNCTION = {"name": PROBE, "description": "b", "parameters": _PROBE_PARAMETERS}
PROBE_TOOLS = [{"type": "function", "function": _PROBE_FUNCTION}]
_PROBE_CALL = {"name": PROBE, "arguments": json.dumps({"c": _PROBE_VALUE})}
_PROBE_CALLED: list[Message] = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "tool_calls": [{"id": "abcdefg12", "type": "function", "function": _PROBE_CALL}]},
    {"role": "tool", "tool_call_id": "abcdefg12", "name": PROBE, "content": PROBE_RESULT},
]


@dataclass(frozen=True, slots=True)
class Fields:
    """What a template reads besides roles and contents; all else goes back to it as text.

    calls: how it takes a call's arguments, as "values" or as JSON "text"; None: it leaves calls out. alone: whether
    it sees calls only in messages without content. results: whether it knows messages of tools. thoughts: what it calls
    them, "" where it does not; marks: what stands around them in a text, None where its model is not known to think.
    """

    calls: str | None = None
    alone: bool = False
    results: bool = False
    thoughts: str = ""
    marks: tuple[str, str] | None = None


def shaped(message: Message, fields: Fields, thinking: bool = True) -> list[Plain]:
    """The message for a template with these `fields`, mostly as one; without its thoughts unless `thinking`."""
    made = _flat(message)
    if message.get("tool_calls"):
        calls = [_described(call, fields.calls) for call in message["tool_calls"]]
        if fields.calls is None:
            made["content"] = "\n".join(filter(None, [made["content"], *map(_written, calls)]))
        else:
            made["tool_calls"] = calls
    if message["role"] == "tool":
        named = {name: str(message[name]) for name in ("tool_call_id", "name") if message.get(name)}
        made.update(named if fields.results else {"role": "user"})
    thoughts = str(message.get("reasoning_content") or "") if thinking else ""
    if thoughts and fields.thoughts == "content":
        parts = [{"type": "thinking", "thinking": _whole(thoughts)}, {"type": "text", "text": made["content"]}]
        made["content"] = parts
    elif thoughts and fields.thoughts:
        made[fields.thoughts] = _whole(thoughts)
    elif thoughts and fields.marks is not None:
        begin, end = fields.marks
        made["content"] = f"{begin}\n{_whole(thoughts)}\n{end}\n\n{made['content']}"
    if not (fields.alone and "tool_calls" in made):
        return [made]
    said = {name: value for name, value in made.items() if name != "tool_calls"}
    return [*([said] if made["content"] else []), {**made, "content": None}]


def _flat(message: Message) -> Plain:
    """The message with plain strings: content given as a list of parts becomes their text."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part if isinstance(part, str) else part.get("text", "") for part in content)
    return {"role": str(message["role"]), "content": _whole(content)}


def _whole(text: str) -> str:
    """A lone surrogate (half an emoji cut by a browser) has no UTF-8 form."""
    return text.encode("utf-8", "replace").decode()


def _described(call: Mapping[str, Any], form: str | None) -> Plain:
    given = call["function"].get("arguments") or {}
    values = json.loads(given) if isinstance(given, str) else given
    arguments = json.dumps(values, ensure_ascii=False) if form == "text" else values
    return {"id": call["id"], "type": "function", "function": {**call["function"], "arguments": arguments}}


def _written(call: Plain) -> str:
    function = call["function"]
    return json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)


# What every role may say, and a call with its result, as most templates take them.
ROLES: list[Plain] = [{"role": role, "content": "a"} for role in ("system", "user", "assistant", "user")]
CALLED = [part for message in _PROBE_CALLED for part in shaped(message, Fields("values", results=True))]


def fields_of_calls(render: Callable[[list[Plain]], str | None]) -> Fields:
    """What a template makes of a call and its result. render: None where it refuses."""
    results = False
    # A call beside content, behind it, or without any; some take no two messages of one role in a row.
    for content, alone, form in product(("b", ""), (False, True), ("values", "text")):
        given, (asked, called, result) = Fields(form, alone, results=True), _PROBE_CALLED
        chat = [asked, {**called, "content": content}, result]
        text = render([part for message in chat for part in shaped(message, given)])
        results = results or (text is not None and PROBE_RESULT in text)
        if text is not None and PROBE in text and _PROBE_VALUE in text:
            return replace(given, results=PROBE_RESULT in text)
    return Fields(results=results)


def one_system(messages: list[Plain]) -> list[Plain]:
    """The system messages in front as one."""
    count = next((index for index, m in enumerate(messages) if m["role"] != "system"), len(messages))
    if count < 2:
        return messages
    text = "\n\n".join(str(m["content"]) for m in messages[:count])
    return [{"role": "system", "content": text}, *messages[count:]]


def alternating(messages: list[Plain]) -> list[Plain]:
    """The same words in user and assistant turns that alternate, beginning with the user's."""
    result: list[Plain] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        if result and result[-1]["role"] == role:
            result[-1] = {"role": role, "content": result[-1]["content"] + "\n\n" + message["content"]}
        else:
            result.append({"role": role, "content": message["content"]})
    if result and result[0]["role"] == "assistant":
        result.insert(0, {"role": "user", "content": ""})
    return result


def stand_in(text: str, parts: Sequence[str]) -> bool:
    """Whether all `parts` stand in `text`; quick where they stand there in their order."""
    end = 0
    for part in parts:
        place = text.find(part, end)
        if place < 0 and part not in text:
            return False
        end = place + len(part) if place >= 0 else end
    return True


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
        yield from chain.from_iterable(map(strings, value.values()))
    elif isinstance(value, (list, tuple)):
        yield from chain.from_iterable(map(strings, value))
