"""Messages as chat templates read them: plain strings, with calls and thoughts as fields where a template knows them.

A conversation's last message may carry "tools" (OpenAI's list of function descriptions): what may be called in
answering it. Assistant messages may carry "tool_calls" and "reasoning_content" (what was thought before they were
said), and messages of the role "tool" bring results. Knows no template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from omnidraft.prompting.formats.probe import KEYS, NAMES, RESULT, TEXT, USER, Way, call, result

Message = Mapping[str, Any]
Plain = dict[str, Any]

_CALL = call(0, {KEYS[0]: TEXT}, Way(as_text=True, named_id=False, options={}))
_CALLED: list[Message] = [
    {"role": "user", "content": USER}, {"role": "assistant", "tool_calls": [_CALL]}, result(_CALL)
]  # fmt: skip


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
    made = flat(message)
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
        parts = [{"type": "thinking", "thinking": whole(thoughts)}, {"type": "text", "text": made["content"]}]
        made["content"] = parts
    elif thoughts and fields.thoughts:
        made[fields.thoughts] = whole(thoughts)
    elif thoughts and fields.marks is not None:
        begin, end = fields.marks
        made["content"] = f"{begin}\n{whole(thoughts)}\n{end}\n\n{made['content']}"
    if not (fields.alone and "tool_calls" in made):
        return [made]
    said = {name: value for name, value in made.items() if name != "tool_calls"}
    return [*([said] if made["content"] else []), {**made, "content": None}]


def flat(message: Message) -> Plain:
    """The message with plain strings: content given as a list of parts becomes their text."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part if isinstance(part, str) else part.get("text", "") for part in content)
    return {"role": str(message["role"]), "content": whole(content)}


def whole(text: str) -> str:
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
CALLED = [part for message in _CALLED for part in shaped(message, Fields("values", results=True))]


def fields_of_calls(render: Callable[[list[Plain]], str | None]) -> Fields:
    """What a template makes of a call and its result. render: None where it refuses."""
    results = False
    # A call beside content, behind it, or without any; some take no two messages of one role in a row.
    for content, alone, form in product(("b", ""), (False, True), ("values", "text")):
        given, (asked, called, told) = Fields(form, alone, results=True), _CALLED
        chat = [asked, {**called, "content": content}, told]
        text = render([part for message in chat for part in shaped(message, given)])
        results = results or (text is not None and RESULT in text)
        if text is not None and NAMES[0] in text and TEXT in text:
            return replace(given, results=RESULT in text)
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
