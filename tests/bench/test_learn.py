"""Learning runs on the real models end to end: what is learned, kept and not mixed."""

from __future__ import annotations

import json

import pytest

from omnidraft.__main__ import main
from omnidraft.bench import learn

SMALL = ["--train-prompts", "8", "--train-tokens", "32", "--test-tokens", "12", "--test-prompts", "2", "--temperature",
         "0", "--seeds", "1", "--threads", "1"]  # fmt: skip


def bench(tmp_path, *more):
    out = tmp_path / "learn.json"
    arguments = ["bench", "learn", "--data-dir", str(tmp_path), "--target", "tiny-target-b", "--out", str(out)]
    code = main([*arguments, *SMALL, *more])
    return json.loads(out.read_bytes()) if code == 0 else code


def question(text: str) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # 20 seconds, and many times that beside other programs
def test_a_run_learns_reports_goes_on_where_it_stopped_and_refuses_to_mix(tmp_path, capsys):
    own = tmp_path / "own.jsonl"
    own.write_text("".join(question(f"What is {n} plus {n}?") for n in range(12)))
    found = bench(tmp_path, "--tasks", str(own))
    rows = {row["condition"]: row for row in found["rows"]}
    assert list(rows) == ["direct", "cache", "projected"]
    assert all(row["answers"] == 2 and row["task"] == "own" for row in rows.values())
    assert rows["projected"]["training_cpu"] > 0 < rows["cache"]["cache_learned"]
    assert rows["projected"]["updates"] == 2, "a quarter of the interval is enough for the first one"
    (cost,) = found["costs"]
    assert (cost["answers"], cost["updates"], cost["early"]) == (8, 2, None)
    assert cost["peak_mb"] > 200  # of a process that has torch
    assert cost["per_100"] == pytest.approx(100 * (cost["first"] + cost["late"]) / 8)
    capsys.readouterr()

    cell = tmp_path / "learn.cells" / "tiny-target-b-f16-own-s0"
    before = {path: path.stat().st_mtime_ns for path in cell.glob("*.json")}
    assert len(before) == 4  # three conditions and the answers
    assert (cell / "projected.gguf").is_file() == (rows["projected"]["refused"] < 2)  # for `--drafter` of others
    again = bench(tmp_path, "--tasks", str(own), "--loss", "projected,hybrid", "--capacity", "2")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    small = ["cache-2-lru", "cache-2-lfu"]
    assert [row["condition"] for row in again["rows"]] == ["direct", "cache", *small, "projected", "hybrid"]
    assert all(row["cache_learned"] == 2 for row in again["rows"] if row["condition"] in small)
    told = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines() if "-s0: " in line]
    assert told == [*small, "hybrid"]
    assert bench(tmp_path, "--tasks", str(own), "--capacity", "many") == 2
    assert "whole number" in capsys.readouterr().err

    assert bench(tmp_path, "--tasks", str(own), "--test-tokens", "13") == 2
    assert "made with other test_tokens" in capsys.readouterr().err
    own.write_text("".join(question(f"What is {n} times {n}?") for n in range(12)))
    assert bench(tmp_path, "--tasks", str(own)) == 2
    assert "made with other prompts" in capsys.readouterr().err


def test_rows_say_what_a_condition_gains():
    def cell(condition, accepted, **more):
        stream = {"target": "t", "task": "math", "seed": 0, "condition": condition}
        return {**stream, "counts": {"0": [[100, accepted, 120, 60, 1]] * 3}, **more}

    updates = [{"answers": 8, "published": True, "cpu": 1.0, "peak_mb": 0.0}]
    found = [cell("direct", 5), cell("hybrid", 30, updates=updates, cpu=3.0, seconds=4.0)]
    row = next(row for row in learn.rows(found) if row["condition"] == "hybrid")
    assert (row["acceptance"].mean, row["training_cpu"]) == (pytest.approx(0.3), 3.0)
    assert (row["answers"], row["long"], row["looped"]) == (3, 3, 3)
    assert len(learn.report(found).tables) == 2
