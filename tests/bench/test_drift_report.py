"""`bench drift --report`: drops and recoveries are counted as said, and every condition is a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnidraft.__main__ import main
from omnidraft.bench.drift_report import LEVEL, Variant, recovery, report, switches, variants
from omnidraft.bench.report import json_file, markdown, write
from omnidraft.lab.schedule import BUNDLED, Schedule, Segment
from omnidraft.lab.store import Options, Point, RunState


def state_of(schedule: Schedule, rates: list[list[float]]) -> RunState:
    """A finished run in which each prompt had 100 proposals."""
    points = []
    for number, (segment, accepted) in enumerate(zip(schedule.segments, rates, strict=True)):
        for i, rate in enumerate(accepted):
            points.append(Point(
                len(points), number, segment.target, segment.task, f"p{len(points)}", 100, round(100 * rate), rate, 40,
                20, 2.0, 100.0, None, None, 10, 5, number > 0 and i == 0, False, None, 1.0,
            ))  # fmt: skip
    return RunState("r", schedule, {}, "d", Options(), "x", 0.0, "finished", points)


ABA = Schedule("a-b-a", (Segment("a", "mixed", 10), Segment("b", "mixed", 12), Segment("a", "mixed", 8)))


def test_a_drop_and_both_ways_back_are_counted(tmp_path):
    rates = [[0.5] * 10, [0.1] * 4 + [0.2, 0.3] + [0.5] * 6, [0.4] * 2 + [0.6] * 6]
    variant = Variant(ABA, True, "per-target")
    there, back = switches(variant, state_of(ABA, rates))
    assert (there.before, there.lowest) == (pytest.approx(0.5), pytest.approx(0.1))
    assert (there.drop, there.own, there.return_) == (pytest.approx(0.4), None, None)
    assert (there.first, there.second) == (pytest.approx(0.12), pytest.approx(0.46))
    assert there.recovery == 9  # the sixth to the ninth are the first four in a row with .45 on average
    assert (back.before, back.own) == (pytest.approx((0.2 + 0.3 + 0.5 * 6) / LEVEL), pytest.approx(0.5))
    assert (back.recovery, back.return_) == (4, 4)
    found = report([(variant, state_of(ABA, rates))], Options())
    text = "\n".join(markdown(found))
    assert "| b, mixed | n-gram cache, learning | 0.500 | 0.100 | 0.400 | 0.120 | 0.460 | 9 |  |  | 0.438 |" in text
    write(found, None, None, tmp_path / "drift.png")
    assert (tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")
    (line,) = found.panels[0].lines
    assert line.y[10] is None, "broken at the switch"
    assert found.panels[0].marks == [10.5, 22.5]
    assert json.loads(json_file(found))["switches"][0]["drop"] == pytest.approx(0.4)


def test_a_level_that_is_never_reached_is_said_so():
    assert recovery([0.1, 0.2, 0.3, 0.4], 0.5) is None
    assert recovery([None, None, None, 0.45], 0.5) == 4
    assert recovery([0.9], None) is None
    run = (Variant(ABA, False, "none"), state_of(ABA, [[0.5] * 10, [0.0] * 12, [0.0] * 8]))
    assert "not in 12" in "\n".join(markdown(report([run], Options())))


def test_conditions_are_every_pair_and_one_adapter_for_all_only_where_targets_change():
    names = [variant.name for variant in variants([BUNDLED["step"], BUNDLED["a-b-a"]])]
    assert len(names) == len(set(names)) == 4 + 6
    assert not any("shared" in name for name in names if name.startswith("step"))
    plain = Variant(ABA, False, "none").options(Options())
    taught = Variant(ABA, True, "shared").options(Options(cache="empty"))
    assert (plain.cache, plain.learning, taught.cache, taught.learning) == ("off", False, "empty", True)


def test_a_report_is_made_of_runs_and_goes_on(tmp_path, capsys):
    out = tmp_path / "drift.json"
    arguments = ["bench", "drift", "--report", "--data-dir", str(tmp_path / "home"), "--schedules", "step", "--prompts",
                 "2", "--max-tokens", "6", "--threads", "1", "--out", str(out)]  # fmt: skip
    assert main(arguments) == 0
    found = json.loads(out.read_bytes())["switches"]
    assert [(one["cache"], one["learning"]) for one in found] == [
        (False, "none"), (True, "none"), (False, "per-target"), (True, "per-target"),
    ]  # fmt: skip
    assert all(one["task"] == "code" and one["prompts"] == 2 for one in found)
    runs = sorted((tmp_path / "drift.cells" / "runs").glob("*/run.json"))
    before = {path: path.stat().st_mtime_ns for path in runs}
    assert len(before) == 4
    capsys.readouterr()
    assert main([*arguments, "--markdown", str(tmp_path / "drift.md")]) == 0
    assert {path: path.stat().st_mtime_ns for path in runs} == before
    assert "| step: switch to |" in Path(tmp_path / "drift.md").read_text()
    assert main([*arguments, "--seed", "3"]) == 2
    assert "made with other options" in capsys.readouterr().err
