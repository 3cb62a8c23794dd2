"""Drift runs: no prompt twice, stops that keep what there is, a cache of their own, and what is said of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from omnidraft.__main__ import main
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab import drift
from omnidraft.lab.drift import BUNDLED, DriftRun, Loading, Plan, Point, Schedule, Segment, choose_prompts
from omnidraft.lab.drift_lab import DriftLab, plots, segment_rows
from omnidraft.learning.training.process import does
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import BUNDLED_MODELS
from tests.lab.traces import run_of
from tests.until import until

ROOT = Path(__file__).resolve().parents[2]
A, B = "tiny-target-a", "tiny-target-b"


def schedule(*segments: tuple[str, str, int]) -> Schedule:
    return Schedule("test", tuple(Segment(*segment) for segment in segments))


@pytest.fixture
def planned(models) -> Callable[..., Plan]:
    """A plan on the bundled models."""

    def plan(*segments: tuple[str, str, int], **more) -> Plan:
        made = schedule(*segments)
        targets = {name: str(models / f"{name}-f16.gguf") for name in made.targets}
        return Plan(made, targets, str(models / "tiny-drafter-f16.gguf"), **{"max_tokens": 12, "threads": 1, **more})

    return plan


@pytest.fixture
def begin(home, planned, tmp_path) -> Callable[..., DriftRun]:
    def start(*segments: tuple[str, str, int], **more) -> DriftRun:
        folder = tmp_path / f"run-{len(list(tmp_path.glob('run-*')))}"
        folder.mkdir()
        return DriftRun(home, folder, planned(*segments, **more))

    return start


def steps(run: DriftRun) -> list[Point]:
    return [event for event in run.events() if isinstance(event, Point)]


# Schedules


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_schedule_has_enough_prompts_and_repeats_none(name):
    prompts = choose_prompts(BUNDLED[name])
    assert len(prompts) == BUNDLED[name].total
    assert len({prompt.text for prompt in prompts}) == len(prompts)


def test_asking_for_more_prompts_than_there_are_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="Segment 2 asks for 30 prompts of math, but only 20 are left"):
        choose_prompts(schedule((A, "math", 60), (B, "math", 30)))
    own = tmp_path / "own.txt"
    own.write_text("What is tea?\n What  is tea? \nWhat is milk?\n")
    assert len(choose_prompts(schedule((A, str(own), 2)))) == 2
    with pytest.raises(SettingsError, match="only 2 are left"):
        choose_prompts(schedule((A, str(own), 3)))
    with pytest.raises(SettingsError, match="from 1 to"):
        schedule((A, "math", 0))


def test_a_plan_survives_its_way_into_another_process(planned):
    plan = planned((A, "code", 2), (B, "qa", 1), learning=True)
    assert Plan.from_json(json.dumps(asdict(plan))) == plan
    with pytest.raises(SettingsError, match="is not among the given models"):
        replace(plan, targets={A: plan.targets[A]})


# Runs


def test_a_run_reports_every_prompt_marks_the_switches_and_finishes(begin, home):
    run = begin((A, "dialogue", 2), (B, "dialogue", 2), (A, "dialogue", 1))
    events = list(run.events())
    assert [e.target for e in events if isinstance(e, Loading)] == [A, B, A]
    points = [e for e in events if isinstance(e, Point)]
    assert [p.index for p in points] == [0, 1, 2, 3, 4]
    assert [p.switch for p in points] == [False, False, True, False, True]
    assert [p.target for p in points] == [A, A, B, B, A]
    assert len({p.prompt for p in points}) == 5
    for p in points:
        assert 0 <= p.accepted <= p.proposed
        assert p.tokens >= p.passes > 0
        assert p.decode > 0
        assert p.cache_learned >= 0
    assert not home.profile().ngrams.exists(), "the profile's own cache stays as it is"


@pytest.fixture
def ungated(monkeypatch):
    """A small adapter is trained after every answer, and every update is served, whatever it is worth."""
    monkeypatch.setattr(drift, "LEARNING", LearningSettings(interval=1))
    monkeypatch.setattr(drift, "does", lambda job: does(replace(job, gated=False)))


@pytest.mark.slow
def test_a_learner_serves_a_new_adapter_after_every_few_answers_and_keeps_one_per_vocabulary(begin, ungated):
    run = begin((A, "dialogue", 3), (B, "dialogue", 1), (A, "dialogue", 1), learning=True)
    served = [point.adapter for point in steps(run)]
    assert served[0] is None
    assert [adapter.rpartition("/")[2] for adapter in served[1:3]] == ["v000001", "v000002"]
    of_b, again = served[3:]
    assert of_b == again, "a new vocabulary starts from what the last one taught, which goes on with that itself"
    assert of_b.endswith("/v000003")


def test_a_prompt_that_does_not_fit_fails_in_a_sentence(begin, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("What is tea?\n" + "many words " * 20000 + "\n")
    events = begin((A, str(own), 2)).events()
    assert [type(next(events)) for _ in range(2)] == [Loading, Point]
    with pytest.raises(ModelError, match="own-2 cannot be answered"):
        next(events)


def finished(lab: DriftLab) -> None:
    until(lambda: not lab.running)


def test_the_app_s_runs_go_on_by_themselves_can_be_stopped_and_leave_nothing_on_disk(home, planned, tmp_path, models):
    own = tmp_path / "own.txt"
    own.write_text("".join(f"Where do {number} Quxington walruses sleep?\n" for number in range(40)))
    lab = DriftLab(home, home.profile())
    assert lab.latest is None
    lab.start(planned((A, str(own), 3)))
    with pytest.raises(SettingsError, match="under way"):
        lab.start(planned((A, "math", 1)))
    finished(lab)
    assert (lab.latest.status, lab.latest.error, len(lab.latest.points)) == ("finished", "", 3)
    lab.start(planned((A, str(own), 40), max_tokens=64))
    until(lambda: lab.latest.points)
    lab.stop()
    finished(lab)
    assert lab.latest.status == "stopped"
    assert 0 < len(lab.latest.points) < 40
    assert lab.latest.seconds_left > 0
    lab.start(replace(planned((A, "math", 1)), targets={A: str(models / "nowhere.gguf")}))
    finished(lab)
    assert (lab.latest.status, "nowhere.gguf" in lab.latest.error) == ("failed", True)
    lab.start(planned((A, "math", 1), max_tokens=8))
    lab.close()
    assert not list((home.profile().root / "drift").iterdir())
    assert all(b"Quxington" not in file.read_bytes() for file in home.root.rglob("*") if file.is_file())


def test_a_run_stands_still_for_a_question_and_times_nothing_of_that(home, planned):
    lab = DriftLab(home, home.profile())
    lab.start(planned((A, "math", 12), max_tokens=48))
    until(lambda: lab.latest.points)
    process = psutil.Process(lab._child.pid)
    with lab.standing_still():
        with lab.standing_still():
            time.sleep(0.3)
        assert process.status() == psutil.STATUS_STOPPED
        before = len(lab.latest.points)
        time.sleep(0.5)
        assert len(lab.latest.points) <= before + 1, "but for one that was on its way"
    finished(lab)
    assert lab.latest.status == "finished"
    cut = [point for point in lab.latest.points if point.interrupted]
    assert len(cut) == 1
    (row,) = segment_rows(lab.latest.plan.schedule, lab.latest.points)
    rest = [point for point in lab.latest.points if not point.interrupted]
    assert row.tokens_per_second == pytest.approx(sum(p.tokens for p in rest) / sum(p.decode for p in rest))


# What is said of them


def test_rates_of_segments_are_pooled_and_know_what_was_before():
    first, second = segment_rows(*run_of([(8, 10), (0, 30)], [(1, 10), (5, 10), (5, 10)]))
    assert first.acceptance == pytest.approx(0.2)
    assert first.before is None
    assert second.before == pytest.approx(0.2)
    assert second.acceptance == pytest.approx(11 / 30)
    assert second.tokens_per_pass == pytest.approx(2.0)
    assert second.tokens_per_second == pytest.approx(100.0)


def test_recovery_is_when_the_moving_average_is_back_at_the_old_level():
    fast = segment_rows(*run_of([(5, 10)] * 10, [(0, 10)] * 2 + [(5, 10)] * 18))[1]
    assert fast.recovery == 10  # the window of 8 holds no zero from the tenth prompt on
    assert segment_rows(*run_of([(5, 10)] * 10, [(1, 10)] * 20))[1].recovery is None


def test_the_plots_have_a_dot_a_prompt_and_a_mark_at_every_switch():
    acceptance, passes = plots(*run_of([(1, 10)] * 5, [(3, 10)] * 4, [(2, 10)] * 3))
    dots, *lines = acceptance.series
    assert [y for _, y in dots.points][4:6] == [0.1, 0.3]
    assert [len(line.points) for line in lines] == [5, 4, 3], "no line reaches across a switch"
    assert [(mark.x, mark.line) for mark in acceptance.marks] == [(-0.5, False), (4.5, True), (8.5, True)]
    assert {y for _, y in passes.series[0].points} == {2.0}
    html = acceptance.html()
    assert html.count("<circle") == 12
    assert html.count("od-switch") == 2


# The command


def test_the_command_says_every_prompt_and_every_part(home, capsys):
    args = ["bench", "drift", "--schedule", "a-b-a", "--prompts", "1", "--task", "qa", "--max-tokens", "8",
            "--threads", "1", "--data-dir", str(home.root)]  # fmt: skip
    assert main([*args, "--json"]) == 0
    out = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["target"] for line in out[:3]] == [A, B, A]
    assert [row["target"] for row in out[3]["segments"]] == [A, B, A]
    assert out[3]["finished"]
    others = [str(BUNDLED_MODELS / f"{name}-f16.gguf") for name in (B, A)]
    assert main([*args, "--target", *others, "--out", str(home.root / "drift.json")]) == 0
    assert json.loads((home.root / "drift.json").read_bytes())["finished"]
    told = capsys.readouterr().out
    assert told.index(Path(others[0]).stem) < told.index(Path(others[1]).stem)


@pytest.mark.parametrize(
    "args", [["--prompts", "81"], ["--task", "juggling"], ["--target", "a", "b"], ["--max-tokens", "0"]]
)
def test_a_mistake_is_one_sentence(home, capsys, args):
    assert main(["bench", "drift", "--schedule", "step", *args, "--data-dir", str(home.root)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("omnidraft: ")
    assert len(error.strip().splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_ctrl_c_stops_a_run_that_says_what_it_has(home):
    script = ["bench", "drift", "--schedule", "step", "--threads", "1", "--json", "--max-tokens", "32"]
    command = [sys.executable, "-m", "omnidraft", *script, "--data-dir", str(home.root)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert process.returncode == 130
    told = json.loads(out.splitlines()[-1])
    assert not told["finished"]
    assert "Traceback" not in err
    assert 0 < told["segments"][0]["prompts"] < 80


@pytest.mark.slow
def test_learning_raises_acceptance_within_a_segment(begin):
    run = begin((A, "math", 40), learning=True, max_tokens=64)
    (row,) = segment_rows(run.plan.schedule, steps(run))
    assert row.last > 2 * row.first
