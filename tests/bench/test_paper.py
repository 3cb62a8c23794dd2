"""`bench paper`: every table by the benchmark that measures its kind, and on from where it was interrupted."""

from __future__ import annotations

import json

import pytest

from omnidraft.__main__ import main

SMALL = ["--target", "tiny-target-b", "--tasks", "math", "--seeds", "1", "--train-prompts", "8", "--train-tokens", "24",
         "--test-prompts", "2", "--test-tokens", "12", "--regimes", "bundled", "--timed-prompts", "2", "--threads",
         "1"]  # fmt: skip


def tables(tmp_path, *more) -> dict:
    out = tmp_path / "paper.json"
    assert main(["bench", "paper", "--data-dir", str(tmp_path), "--out", str(out), *SMALL, *more]) == 0
    return json.loads(out.read_bytes())["tables"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_makes_its_tables_and_goes_on_where_it_stopped(tmp_path, capsys):
    found = tables(tmp_path, "--tables", "methods,cache,speed", "--markdown", str(tmp_path / "paper.md"))
    methods = ["direct", "cache", "dm", "hybrid", "projected"]
    assert [row["condition"] for row in found["methods"]["rows"]] == methods
    assert len(found["methods"]["pairs"]) == 4
    assert len(found["cache"]["rows"]) == 6
    speeds = [(row["condition"], row["method"]) for row in found["speed"]["rows"]]
    assert speeds == [(one, way) for one in ("untrained", *methods[2:]) for way in ("fixed:4", "adaptive")]
    text = (tmp_path / "paper.md").read_text()
    assert text.index("Methods (Table 1)") < text.index("without training") < text.index("Speedups with drafters")
    capsys.readouterr()
    again = tables(tmp_path, "--tables", "methods,cache,speed,losses")
    assert {name: again[name] for name in found} == found
    assert {row["condition"] for row in again["losses"]["rows"]} >= {"ngram", "both_kl", "projected"}
    told = capsys.readouterr().err.splitlines()
    assert not [line for line in told if line.endswith(("projected", "hybrid", ": math"))]
