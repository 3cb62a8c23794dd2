"""What was found is kept cell by cell, so that a run goes on from where it stopped, and told as text and as JSON."""

from __future__ import annotations

import json

import pytest

from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.results import Cells, Report, Table, as_text, json_lines, write
from omnidraft.lab.statistics import Value


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
    with pytest.raises(ZeroDivisionError):
        cells.get("fails", {}, lambda: 1 / 0)
    assert not cells.place("fails.json").exists()


def test_a_report_is_text_and_json(tmp_path):
    found = [{"task": "math", "x": Value(1.5, 1.25, 2.0), "n": float("nan")}, {"task": "qa", "x": 0.12345, "n": 7}]
    columns = {"task": "task", "speedup": "x", "none": "y", "double": lambda row: row["task"] * 2}
    report = Report(found, [Table.of("Speed", found, columns)], ["a note"])
    assert list(as_text(report)) == [
        "", "Speed", "task  speedup            none  double", "math  1.50 [1.25, 2.00]        mathmath",
        "qa    0.123                    qaqa", "a note",
    ]  # fmt: skip
    lines = [json.loads(line) for line in json_lines(report)]
    assert lines == [{"task": "math", "x": {"mean": 1.5, "low": 1.25, "high": 2.0}, "n": None}, found[1]]
    for what, wanted in ((report, {"rows": lines}), (Report({"a": 1}), {"a": 1})):
        write(what, tmp_path / "r.json")
        assert json.loads((tmp_path / "r.json").read_bytes()) == wanted
