"""Answers of models in circulation, where the reference data lie beside the checkout: see `cases`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from omnidraft.backends.prompting.formats.of_template import format_of_source
from tests.backends.prompting.formats.cases import counts, differences, read_case

ROOT = Path(__file__).resolve().parents[5] / "shared" / "data" / "formats"
LEAST = 0.97


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
