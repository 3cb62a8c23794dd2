"""A grammar of exactly one call of one of several functions, in the way a model writes calls: `call_grammar`.

What parts text into calls again is in `formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omnidraft.backends.prompting.formats.shapes import WrittenCall
from omnidraft.backends.prompting.grammar import Grammar, json_part, literal
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.errors import ModelError


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
    before = _text(written.before + function["name"] + written.between, controls)
    arguments = f"{rule}_values" if written.tags else json_part(schema)
    yield f"{rule}: {before} {arguments} {_text(written.behind, controls)}"
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
        return rf"/[\s\S]*/ {literal(behind)}"
    return f"{json_part({**schema, **shared} if isinstance(schema, dict) else {})} {literal(behind)}"


def _text(text: str, controls: Sequence[str]) -> str:
    """Lark for `text`, its control tokens by their rules."""
    if not controls:
        return literal(text)
    parts = re.split(f"({'|'.join(map(re.escape, controls))})", text)
    rules = {control: f"control{i}" for i, control in enumerate(controls)}
    return " ".join(rules.get(part) or literal(part) for part in parts if part)
