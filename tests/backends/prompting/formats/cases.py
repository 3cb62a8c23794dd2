"""Answers with what must be read from them: whether they are read so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.formats.events import Reading
from omnidraft.backends.prompting.formats.open import read, schemas
from omnidraft.backends.prompting.formats.pattern import ChatFormat


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
