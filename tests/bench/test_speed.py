"""`bench speed`: small real runs, and what a row adds up to."""

from __future__ import annotations

import pytest

from omnidraft.bench import speed
from omnidraft.bench.plans import Speed, Work
from omnidraft.bench.speed import measured, run, summary
from omnidraft.lab.results import Cells, Report
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome
from tests.lab.traces import trace

TARGET = str(BUNDLED_MODELS / "tiny-target-a-f16.gguf")


def small(**more) -> Speed:
    return Speed(None, 1, (TARGET,), tasks=("math",), temperature=("0",), **more)


def made(plan: Speed, folder) -> Report:
    return list(run(plan, Work(DataHome(folder), Cells(folder / "cells"), lambda _line: None)))[-1]


def test_a_row_adds_up():
    plain = [trace(1.0, tokens=10, prefill=1.0), trace(2.0, tokens=40)]
    found = [trace(0.5, tokens=10, proposed=8, accepted=4, prefill=1.0), trace(1.0, tokens=40)]
    row = measured(plain, found)
    assert (row["speedup"], row["speedup_ci"], row["speedup_median"]) == (2.0, (2.0, 2.0), 2.0)
    assert row["end_to_end_speedup"] == pytest.approx(4.0 / 2.5)
    assert (row["acceptance_rate"], row["tokens_per_pass"]) == (0.5, 25.0)
    assert (row["tokens_per_second"], row["answers"], row["long"]) == (pytest.approx(50 / 1.5), 2, 1)
    (line,) = summary([row | {"method": "adaptive"}, row | {"method": "plain"}])
    assert "adaptive: 1 cells, geometric mean x2.000" in line


def test_what_is_finished_is_not_run_again(tmp_path, monkeypatch):
    asked = []
    real = speed.Pair.answer
    monkeypatch.setattr(speed.Pair, "answer", lambda self, *a: asked.append(a) or real(self, *a))
    plan = small(methods=("plain", "fixed:2"), prompts=1, max_tokens=16)
    first = made(plan, tmp_path)
    assert made(plan, tmp_path) == first
    assert [way for way, _ in asked] == ["plain", "fixed:2"] * 2, "once to warm up, and once in the end"
    assert [row["method"] for row in first.values] == ["plain", "fixed:2"]
    assert [row["same"] for row in first.values] == [1, 1]
    assert "C(5)" in first.notes[0]
