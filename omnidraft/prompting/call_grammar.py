"""Grammars in the way a model writes: of exactly one call of one of several functions, and of what precedes an answer.

What parts text into calls again is in `formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from omnidraft.errors import ModelError
from omnidraft.prompting.formats.chat_format import THOUGHT_MARKS, WrittenCall
from omnidraft.prompting.grammar import Grammar, json_part, literal
from omnidraft.prompting.templates import ChatTemplate

_ANYTHING = r"/[\s\S]*/"
_SPACE = r"/[ \t\r\n]*/"


def required_call(template: ChatTemplate, functions: Sequence[dict[str, Any]]) -> Grammar:
    """The grammar for the model of this template; ModelError where it writes calls in a way of its own."""
    written = next((shape.written for shape in template.form.calls if shape.written is not None), None)
    if written is None:
        raise ModelError(f"{template.name} writes calls in a way that cannot be required; let it choose.")
    return call_grammar(written, functions, tuple(text.decode() for text in template.markers.values()))


def call_grammar(written: WrittenCall, functions: Sequence[dict[str, Any]], controls: tuple[str, ...] = ()) -> Grammar:
    """functions: {"name", "parameters": a JSON schema, of an object}; controls: texts that are control tokens where the
    vocabulary has them."""
    if not functions:
        raise ModelError("There is no tool to call.")
    rules = [f"start: {' | '.join(f'call{i}' for i in range(len(functions)))}"]
    for i, function in enumerate(functions):
        rules += _call(written, f"call{i}", function, controls)
    return Grammar("\n".join(rules), controls)


def _call(written: WrittenCall, rule: str, function: dict[str, Any], controls: tuple[str, ...]) -> Iterator[str]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    schema = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    before = _lark(_parts(written.before + function["name"] + written.between, controls), controls)
    arguments = f"{rule}_values" if written.tags else json_part(schema)
    yield f"{rule}: {before} {arguments} {_lark(_parts(written.behind, controls), controls)}"
    if written.tags is None:
        return
    begin, between, end = written.tags
    required = schema.get("required", ())
    shared = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    values = []
    for i, (name, value) in enumerate(schema.get("properties", {}).items()):
        values.append(f"{rule}_{i}{'' if name in required else '?'}")
        text = _value(end, value, shared)
        if isinstance(value, dict) and value.get("type") == "string" and "enum" not in value:
            yield f"{rule}_{i}_text[lazy]: {text}"
            text = f"{rule}_{i}_text"
        yield f"{rule}_{i}: {literal(begin + name + between)} {text}"
    yield f"{rule}_values: {' '.join(values)}"


def _value(behind: str, schema: Any, shared: dict[str, Any]) -> str:
    """Lark for a value in tags and what closes it."""
    choices = schema.get("enum") if isinstance(schema, dict) else None
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(map(literal, choices))}) {literal(behind)}"
    if isinstance(schema, dict) and schema.get("type") == "string":
        return f"{_ANYTHING} {literal(behind)}"
    return f"{json_part({**schema, **shared} if isinstance(schema, dict) else {})} {literal(behind)}"


def behind_thoughts(grammar: Grammar, template: ChatTemplate) -> Grammar:
    """The grammar for an answer of this template's model: behind thoughts that its prompt has opened, or in a channel;
    else as it is.

    Without that such a model would have to write the answer where its thoughts stand.
    """
    markers = [text.decode() for text in template.markers.values()]
    controls = (*grammar.controls, *(text for text in markers if text not in grammar.controls))
    if template.form.harmony:
        begin, end, bare = (_parts(mark, controls) for mark in THOUGHT_MARKS)
        before = f"before: {_lark(begin, controls)} thoughts | {_lark(bare, controls)}\n{_up_to(end, controls)}"
    elif template.opens_thoughts:
        end = [part for item in template.form.thoughts.ends[0] for part in _parts(str(item), controls)]
        before = f"before: thoughts {_SPACE}\n{_up_to(end, controls)}"
    else:
        return grammar
    return replace(grammar, before=before, controls=controls)


def _up_to(end: Sequence[str], controls: Sequence[str]) -> str:
    """A rule in Lark, `thoughts`: any text and the first `end` behind it. A control token stands in no text."""
    if end[0] in controls:
        return f"thoughts: {_ANYTHING} {_lark(end, controls)}"
    return f"thoughts: thought {_lark(end[1:], controls)}\nthought[lazy]: {_ANYTHING} {literal(end[0])}"


def _parts(text: str, controls: Sequence[str]) -> list[str]:
    """The text cut at its control tokens."""
    return [part for part in re.split(f"({'|'.join(map(re.escape, controls)) or '$^'})", text) if part]


def _lark(parts: Sequence[str], controls: Sequence[str]) -> str:
    """Lark for these parts, control tokens by their rules."""
    return " ".join(f"control{controls.index(part)}" if part in controls else literal(part) for part in parts)
