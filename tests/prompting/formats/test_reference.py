"""Answers of models in circulation, where the reference data lie beside the checkout."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from omnidraft.prompting.formats.chat_format import ChatFormat, Reading
from tests.prompting.reading import format_of_source, read, schemas

ROOT = Path(__file__).resolve().parents[4] / "shared" / "data" / "formats"
LEAST = 0.97


def read_case(form: ChatFormat, case: Mapping[str, Any], size: int = 0) -> Reading:
    tools = schemas(case.get("tools") or ())
    return read(form, case["input"], tools, case.get("genprompt") or "", size=size, whole=not case.get("partial"))


def counts(case: Mapping[str, Any]) -> bool:
    """Whether the answer is complete and free, and its thoughts are to be taken out. A schema's grammar allows nothing
    around its JSON."""
    return not case.get("partial") and case.get("rf", 1) != 0 and not case.get("schema")


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


@pytest.fixture(scope="module")
def cases():
    if not (ROOT / "outputs.jsonl").is_file():
        pytest.skip("needs the reference answers beside the checkout")
    return [json.loads(line) for line in (ROOT / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]


@cache
def form_of(name):
    return format_of_source((ROOT / "templates" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("size", [0, 1])
def test_answers_are_read_as_expected(cases, size):
    counted = [case for case in cases if counts(case)]
    wrong = [case for case in counted if differences(read_case(form_of(case["template"]), case, size), case)]
    assert len(wrong) <= (1 - LEAST) * len(counted), [(case["template"], case["input"]) for case in wrong]


def test_calls_are_read_where_thoughts_are_left_in_the_content(cases):
    for case in cases:
        if case["partial"] or case["rf"] != 0:
            continue
        assert "calls" not in differences(read_case(form_of(case["template"]), case, 3), case), case["input"]
