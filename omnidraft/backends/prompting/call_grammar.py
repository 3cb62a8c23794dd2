"""A grammar of exactly one call of one of several functions, in the way a model writes calls: `call_grammar`.

How it does is told by a `CallForm`; what parts text into calls again is in `formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.prompting.grammar import Grammar, json_part, literal
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.errors import ModelError


@dataclass(frozen=True, slots=True)
class TagForm:
    """What stands around each argument's name and value; strings are written as they are, everything else as JSON."""

    before: str
    between: str
    behind: str


@dataclass(frozen=True, slots=True)
class CallForm:
    """What stands before a call's name, between it and the arguments, and behind them.

    tags: how arguments are written one by one; None: they are one JSON object. controls: parts that are control tokens
    where the vocabulary has them.
    """

    before: str
    between: str
    behind: str
    tags: TagForm | None = None
    controls: tuple[str, ...] = ()


def call_form(template: ChatTemplate) -> CallForm:
    """How the model of this template writes a call; ModelError where it does so in a way of its own."""
    written = next((shape.written for shape in template.form.calls if shape.written is not None), None)
    if written is None:
        raise ModelError(f"{template.name} writes calls in a way that cannot be required; let it choose.")
    controls = tuple(text.decode() for text in template.markers.values())
    tags = TagForm(*written.tags) if written.tags is not None else None
    return CallForm(written.before, written.between, written.behind, tags, controls)


def call_grammar(form: CallForm, functions: Sequence[dict[str, Any]]) -> Grammar:
    """functions: {"name", "parameters": a JSON schema, of an object}."""
    if not functions:
        raise ModelError("There is no tool to call.")
    rules = [f"start: {' | '.join(f'call{i}' for i in range(len(functions)))}"]
    for i, function in enumerate(functions):
        rules += _call(form, f"call{i}", function)
    return Grammar("\n".join(rules), form.controls)


def _call(form: CallForm, rule: str, function: dict[str, Any]) -> Iterator[str]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    schema = schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    before = _text(form, form.before + function["name"] + form.between)
    yield f"{rule}: {before} {f'{rule}_values' if form.tags else json_part(schema)} {_text(form, form.behind)}"
    if form.tags is None:
        return
    required = schema.get("required", ())
    shared = {word: schema[word] for word in ("$defs", "definitions") if word in schema}
    values = []
    for i, (name, value) in enumerate(schema.get("properties", {}).items()):
        values.append(f"{rule}_{i}{'' if name in required else '?'}")
        written = _value(form.tags.behind, value, shared)
        if isinstance(value, dict) and value.get("type") == "string" and "enum" not in value:
            yield f"{rule}_{i}_text[lazy]: {written}"
            written = f"{rule}_{i}_text"
        yield f"{rule}_{i}: {literal(form.tags.before + name + form.tags.between)} {written}"
    yield f"{rule}_values: {' '.join(values)}"


def _value(behind: str, schema: Any, shared: dict[str, Any]) -> str:
    """Lark for a value in tags and what closes it."""
    choices = schema.get("enum") if isinstance(schema, dict) else None
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(map(literal, choices))}) {literal(behind)}"
    if isinstance(schema, dict) and schema.get("type") == "string":
        return rf"/[\s\S]*/ {literal(behind)}"
    return f"{json_part({**schema, **shared} if isinstance(schema, dict) else {})} {literal(behind)}"


def _text(form: CallForm, text: str) -> str:
    """Lark for `text`, its control tokens by their rules."""
    if not form.controls:
        return literal(text)
    parts = re.split(f"({'|'.join(map(re.escape, form.controls))})", text)
    controls = {control: f"control{i}" for i, control in enumerate(form.controls)}
    return " ".join(controls.get(part) or literal(part) for part in parts if part)
