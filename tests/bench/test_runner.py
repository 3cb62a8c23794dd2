"""In turns, cell by cell, and on from where a run stopped; and what was found is written."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from omnidraft.bench.runner import Cells, Report, Table, as_text, in_turns, json_lines, write
from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.statistics import Value


def test_every_way_gets_every_item_and_is_first_equally_often():
    asked = []
    found = in_turns("abc", range(6), lambda way, number, item: asked.append((number, way)) or f"{way}{item}")
    assert found == {way: [f"{way}{item}" for item in range(6)] for way in "abc"}
    assert Counter(asked[at][1] for at in range(0, 18, 3)) == {"a": 2, "b": 2, "c": 2}
    assert [number for number, _ in asked] == sorted(number for number, _ in asked)


def test_a_finished_cell_is_not_made_again_and_not_mixed_with_others(tmp_path):
    cells, made = Cells(tmp_path / "x.cells"), []

    def make():
        made.append(1)
        return {"value": Value(1.0, float("nan"), 2.0), "pair": (1, 2)}

    first = cells.get("a/b", {"tokens": 8, "seeds": (1, 2)}, make)
    assert first == {"value": {"mean": 1.0, "low": None, "high": 2.0}, "pair": [1, 2]}
    assert Cells(cells.folder).get("a/b", {"tokens": 8, "seeds": [1, 2]}, make) == first
    assert made == [1]
    with pytest.raises(SettingsError, match="made with other tokens; name another --out file"):
        cells.get("a/b", {"tokens": 9, "seeds": (1, 2)}, make)
    cells.place("a/b.json").write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        cells.get("a/b", {"tokens": 8, "seeds": (1, 2)}, make)


def test_a_cell_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        Cells(tmp_path).get("a", {}, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())


def test_a_report_is_text_and_json(tmp_path):
    table = Table("Speed", ["task", "speedup", "none"], [["math", Value(1.5, 1.25, 2.0), None], ["qa", 0.12345, 7]])
    report = Report([{"task": "math", "nan": float("nan")}, {"task": "qa"}], [table], ["a note"])
    assert list(as_text(report)) == [
        "", "Speed", "task  speedup            none", "math  1.50 [1.25, 2.00]", "qa    0.123              7", "a note",
    ]  # fmt: skip
    assert [json.loads(line) for line in json_lines(report)] == [{"task": "math", "nan": None}, {"task": "qa"}]
    kept = {"rows": [{"task": "math", "nan": None}, {"task": "qa"}]}
    for what, wanted in ((report, kept), (Report({"a": 1}), {"a": 1})):
        write(what, tmp_path / "r.json")
        assert json.loads((tmp_path / "r.json").read_bytes()) == wanted
