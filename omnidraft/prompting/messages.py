"""Messages as chat templates read them: plain strings, with calls and thoughts as fields where a template knows them.

A conversation's last message may carry "tools" (OpenAI's list of function descriptions): what may be called in
answering it. Assistant messages may carry "tool_calls" and "reasoning_content" (what was thought before they were
said), and messages of the role "tool" bring results. Knows no template.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import numpy as np

from omnidraft.prompting.formats.pattern import is_marker
from omnidraft.prompting.formats.probe import KEYS, NAMES, RESULT, TEXT, USER, Way, call, result
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.vocabulary import TokenKind

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


# Rendered prompts as spans of text and control tokens, where what somebody typed is text whatever it spells. Markers
# in what a person or a model wrote are replaced by placeholders before a template renders it, and come back as text
# behind it. Knows nothing of token ids beyond the control tokens' own.


_THOUGHTS = ("<think>", "</think>")
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a rendered prompt: text, or one control token (then `text` is how the template spells it).

    joined: text that goes on from the text before it, cut there because a marker that somebody typed stands across, or
    behind an answer. own: the ids that an answer was written with, which spell the text (own_ids.py).
    """

    text: str
    control_id: int | None = None
    joined: bool = False
    own: tuple[int, ...] = ()

    @property
    def control(self) -> bool:
        return self.control_id is not None

    @property
    def ids(self) -> tuple[int, ...]:
        """Its ids, where they are known without a tokenizer."""
        return self.own if self.control_id is None else (self.control_id,)


class TypedText:
    """Tells apart what was typed and what a template with this `source` writes.

    controls: ids of the control tokens, by how they are spelled.
    """

    def __init__(self, vocabulary: Vocabulary, source: str) -> None:
        self.controls = {text: id for text, id in vocabulary.controls.items() if text}
        self._source = source
        self._pattern = _alternatives(self.controls)
        # Typed by somebody, these stay text as well: the template's markers that the vocabulary has as text.
        own = np.flatnonzero(vocabulary.kinds == TokenKind.USER_DEFINED).tolist()
        written = (vocabulary.pieces[id].decode("utf-8", "replace") for id in own)
        marks = sorted({text for text in written if is_marker(text) and text in source})
        self._numbers = {text: number for number, text in enumerate([*self.controls, *marks])}
        self._typed = _alternatives(self._numbers)

    def sentinel(self, values: Any) -> str:
        texts = [self._source, *strings(values)]
        used = set().union(*texts)
        free = next((chr(code) for code in _PRIVATE_USE if chr(code) not in used), None)
        while free is None:  # all of them are in use: then three in a row that nobody could foresee
            row = "".join(chr(secrets.choice(_PRIVATE_USE)) for _ in range(3))
            free = row if not any(row in text for text in texts) else None
        return free

    def hidden(self, value: Any, sentinel: str) -> Any:
        """`value` with every marker in it spelt as sentinel, number, sentinel. The model's own thoughts keep theirs:
        templates look for them in earlier answers, to leave them out."""
        own = _THOUGHTS if isinstance(value, dict) and value.get("role") == "assistant" else ()
        hide = lambda m: m[0] if m[0] in own else f"{sentinel}{self._numbers[m[0]]}{sentinel}"  # noqa: E731
        return mapped(value, lambda text: self._typed.sub(hide, text))

    def shown(self, rendered: str, sentinel: str) -> str:
        """A text with what was typed in its place."""
        return "".join(span.text for span in self._typed_text(rendered, sentinel, False))

    def spans(self, rendered: str, sentinel: str, joined: bool = False) -> list[Span]:
        """joined: whether it goes on from a text before it."""
        spans: list[Span] = []
        for span in control_spans(rendered, self.controls, self._pattern):
            spans += [span] if span.control else self._typed_text(span.text, sentinel, joined and not spans)
        return spans

    def _typed_text(self, piece: str, sentinel: str, joined: bool) -> Iterator[Span]:
        """Text with what was typed in its place; cut within markers that the vocabulary would make one token of."""
        texts = list(self._numbers)
        parts = re.split(f"{sentinel}(\\d+){sentinel}", piece)
        text = parts[0].replace(sentinel, "")
        for number, behind in zip(parts[1::2], parts[2::2], strict=True):
            typed = texts[int(number)]
            if typed in self.controls:
                text += typed
            else:
                yield Span(text + typed[:1], joined=joined)
                text, joined = typed[1:], True
            text += behind.replace(sentinel, "")
        if text:
            yield Span(text, joined=joined)


def control_spans(text: str, controls: Mapping[str, int], pattern: re.Pattern[str] | None = None) -> Iterator[Span]:
    """The control tokens that a text spells, and what stands between them."""
    for at, part in enumerate((pattern or _alternatives(controls)).split(text)):
        if part:
            yield Span(part, controls[part] if at % 2 else None)


def _alternatives(strings: Iterable[str]) -> re.Pattern[str]:
    ordered = sorted(filter(None, strings), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, ordered)) or '(?!)'})")
