"""What models write that follow their templates: renderings of an assistant's messages, cut behind the prompt."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from omnidraft.prompting.formats.chat_format import THINKS
from omnidraft.prompting.formats.probe import FIELDS
from tests.prompting.every_template import rendered
from tests.prompting.reading import schemas

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SEARCH = {
    "query": TEXT, "limit": WHOLE, "ratio": {"type": "number"}, "exact": {"type": "boolean"}, "ids": {"type": "array"},
    "note": {"type": ["string", "null"]}, "where": {"type": "object"},
}  # fmt: skip
PARAMETERS = {"search_web": SEARCH, "get-weather.v2": {"city": TEXT, "days": WHOLE}, "now": {}, "run": {"code": TEXT}}


def tools(parameters: Mapping[str, Any] = PARAMETERS) -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": {
            "type": "object", "properties": properties, "required": []}}}
        for name, properties in parameters.items()
    ]  # fmt: skip


TOOLS = schemas(tools())
SIMPLE = tools({name: {key: {**TEXT, "description": "d"} for key in given} for name, given in PARAMETERS.items()})
CODE = 'def f(a):\n    if a < 2 && "x" > "y":\n        return {"k": [1, 2]}\n\nprint("a & <b>c</b>")'
ALL = {
    "query": 'tall "towers" & <b>', "limit": 3, "ratio": 0.5, "exact": True, "note": None, "ids": [1, 2],
    "where": {"site": "a.org", "deep": {"x": 1}, "tags": ["p", "q r"]},
}  # fmt: skip
OSLO, ROME = ("search_web", {"query": "Oslo", "limit": 2}), ("get-weather.v2", {"city": "Rome"})
THOUGHT = "They want\nsomething: 2 < 3."
SAID = "Here:\n\n- one\n- **two**"
FENCED = 'So:\n\n```json\n{"name": "now", "arguments": {}}\n```\nand\n```html\n<think>no</think>\n```\nDone.'
MESSAGES: dict[str, tuple[str, str, list[Any]]] = {
    "said": ("", SAID, []), "thought": (THOUGHT, SAID, []), "types": ("", "", [("search_web", ALL)]),
    "code": ("", "", [("run", {"code": CODE})]), "empty": ("", "", [("now", {})]), "two": ("", "", [OSLO, ROME]),
    "all": (THOUGHT, "Let me see.", [OSLO, ROME]), "thoughtful call": (THOUGHT, "", [OSLO]),
    "json": ("", '{"temperature": 5, "city": "Oslo"}', []), "list": ("", '[1, {"a": "b"}]', []),
    "fenced": ("", FENCED, []),
}  # fmt: skip
ASKED = {"role": "user", "content": "Zqask?"}


def messages(thoughts: str, content: str, calls: list[Any]) -> Iterator[dict[str, Any]]:
    """The message in every way templates ask for: where thoughts stand, arguments as values or as text."""
    for as_text in (False, True):
        made = [
            {"id": f"call{index}abcd", "type": "function", "function": {
                "name": name, "arguments": json.dumps(given) if as_text else given}}
            for index, (name, given) in enumerate(calls)
        ]  # fmt: skip
        for field in FIELDS if thoughts else ("content",):
            yield {"role": "assistant", field: thoughts, "content": content, **({"tool_calls": made} if made else {})}


def written(name: str, message: tuple[str, str, list[Any]], options: Mapping[str, Any]) -> tuple[str, str] | None:
    """(what the prompt begins of the answer, what the model writes behind it); None where the template leaves something
    out of the message, or spells arguments as nobody's JSON."""
    thoughts, content, calls = message
    offered = tools() if rendered(name, [ASKED], tools(), True, options) else SIMPLE
    asked, prompt = (rendered(name, [ASKED], offered, begin, options) for begin in (False, True))
    plain = rendered(name, [ASKED, {"role": "assistant", "content": "ZQ"}], offered, False, options) or ""
    if asked is None or prompt is None:
        return None
    for given in messages(*message):
        whole = rendered(name, [ASKED, given], offered, False, options) or ""
        text = _behind(prompt, whole, thoughts)
        if text is None or not all(map(text.__contains__, [content, thoughts, *(called for called, _ in calls)])):
            continue
        if any(f"{{{json.dumps(values)}" in text or repr(values) in text != "{}" for _, values in calls if values):
            continue
        if not all(key in text and _spelt(value, text) for _, values in calls for key, value in values.items()):
            continue
        last = max(map(text.rfind, [content, thoughts, *(called for called, _ in calls)]))
        end = re.findall(r"<[^<>\s]+>|\[\S+?\]|\S+", plain.rpartition("ZQ")[2])[:1]
        cut = text.find(end[0], last) if end else -1
        return prompt.removeprefix(asked) if prompt.startswith(asked) else prompt, text[:cut] if cut >= 0 else text
    return None


def _behind(prompt: str, whole: str, thoughts: str) -> str | None:
    """What `whole` has behind the prompt, or behind what both begin with where the prompt goes on with thoughts."""
    at = next((at for at, (one, other) in enumerate(zip(prompt, whole, strict=False)) if one != other), len(prompt))
    for text in (prompt, whole):
        at = min([at, *(m.start() for m in re.finditer(r"<[^<>\s]*>?", text) if m.start() < at < m.end())])
    rest = prompt[at:].strip()
    opened = re.search(r"<[^<>/]*>\s*$", prompt) is not None and THINKS.search(prompt[-30:]) is not None
    if (rest and (thoughts or not THINKS.search(rest))) or (opened and not thoughts and whole[at : at + 1] != "<"):
        return None
    return whole[at:]


def _spelt(value: Any, text: str) -> bool:
    return not isinstance(value, str) or value in text or json.dumps(value)[1:-1] in text
