"""Drift runs: no prompt twice, stops and kills that lose nothing, a cache of their own, and what is written down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnidraft.__main__ import main
from omnidraft.errors import ModelError, SettingsError, StorageError
from omnidraft.lab import runs as drift
from omnidraft.lab.export import picture, segment_rows
from omnidraft.lab.schedule import BUNDLED, Schedule, Segment, choose_prompts, load_schedule
from omnidraft.lab.store import Options, Point, RunStore, seconds_left
from omnidraft.plot import THEMES
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from tests.lab.traces import state_of

ROOT = Path(__file__).resolve().parents[2]
A, A2, B = "tiny-target-a", "tiny-target-a2", "tiny-target-b"
SHORT = Options(max_tokens=12, threads=1)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def home(tmp_path):
    return find_data_home(tmp_path / "home")


@pytest.fixture
def begin(home, models):
    """Starts a run on the bundled models."""

    def start(schedule: Schedule, options: Options = SHORT) -> drift.DriftRun:
        targets = {name: models / f"{name}-f16.gguf" for name in schedule.targets}
        return drift.start(home, home.root / "runs", schedule, targets, models / "tiny-drafter-f16.gguf", options)

    return start


def schedule(*segments: tuple[str, str, int]) -> Schedule:
    return Schedule("test", tuple(Segment(*segment) for segment in segments))


def begun(home, *options: str) -> subprocess.Popen:
    """`bench drift` in a process of its own, behind its first answer."""
    script = ["bench", "drift", "--schedule", "step", "--threads", "1", "--json", *options]
    command = [sys.executable, "-m", "omnidraft", *script, "--data-dir", str(home.root)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def steps(run: drift.DriftRun) -> list[Point]:
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


def test_a_schedule_file_finds_the_prompt_files_beside_it(tmp_path):
    (tmp_path / "mine.txt").write_text("One?\nTwo?\n")
    segments = [{"target": A, "prompts": "mine.txt", "count": 1}, {"target": B, "prompts": "qa", "count": 2}]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"name": "mine", "segments": segments}))
    loaded = load_schedule(path)
    assert loaded.total == 3
    assert choose_prompts(loaded)[0].text == "One?"
    assert Schedule.from_dict(json.loads(json.dumps(asdict(loaded)))) == loaded


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not a JSON file"),
        ("[]", 'a list "segments"'),
        ('{"segments": []}', "1 to 64 segments"),
        ('{"segments": [{"target": "a", "prompts": "math"}]}', "exactly"),
        ('{"segments": [{"target": "a", "prompts": "math", "count": 0}]}', "number of prompts .count. must be"),
        ('{"segments": [{"target": 1, "prompts": "math", "count": 1}]}', "target must be"),
    ],
)
def test_a_bad_schedule_file_is_refused_in_a_sentence(tmp_path, text, complaint):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises((SettingsError, StorageError), match=complaint):
        load_schedule(path)


# Runs


def test_a_run_reports_every_prompt_marks_the_switches_and_finishes(begin):
    run = begin(schedule((A, "dialogue", 2), (B, "dialogue", 2), (A, "dialogue", 1)))
    events, lefts = [], []
    for event in run.events():
        events.append(event)
        lefts.append(seconds_left(run.state))
    assert [e.target for e in events if isinstance(e, drift.Loading)] == [A, B, A]
    points = [e for e in events if isinstance(e, Point)]
    assert [p.index for p in points] == [0, 1, 2, 3, 4]
    assert [p.switch for p in points] == [False, False, True, False, True]
    assert [p.target for p in points] == [A, A, B, B, A]
    assert len({p.prompt for p in points}) == 5
    for p in points:
        assert 0 <= p.accepted <= p.proposed
        assert p.acceptance == p.accepted / p.proposed
        assert p.tokens_per_pass == p.tokens / p.passes >= 1
        assert p.tokens_per_second > 0
        assert p.speedup is None
    assert lefts[-1] == 0 < lefts[1]
    assert run.state.status == "finished"


def test_a_killed_run_keeps_what_it_had(home):
    process = begun(home, "--prompts", "3", "--max-tokens", "12")
    process.stdout.readline()
    process.kill()
    process.communicate()
    (state,) = RunStore(home.profile().root / "drift").runs()
    assert state.status == "running"
    assert 2 <= state.done < 6
    assert [point.index for point in state.points] == list(range(state.done))


def test_the_cache_can_be_off_and_the_profile_s_own_stays_as_it_is(begin, home):
    points = steps(begin(schedule((A, "code", 2)), replace(SHORT, cache="off")))
    assert [(p.cache_entries, p.cache_learned) for p in points] == [(0, 0), (0, 0)]
    assert not home.profile().ngrams.exists()
    seeded = steps(begin(schedule((A, "code", 2))))
    assert all(p.cache_entries > p.cache_learned for p in seeded)
    assert not home.profile().ngrams.exists()


def test_speedup_is_measured_against_the_same_prompt_without_the_drafter(begin):
    plan = schedule((A, "dialogue", 3))
    paired = steps(begin(plan, replace(SHORT, plain=True)))
    for p in paired:
        assert p.plain_tokens_per_second > 0
        assert p.speedup == pytest.approx(p.tokens_per_second / p.plain_tokens_per_second)
    alone = steps(begin(plan))
    assert [(p.tokens, p.proposed, p.accepted) for p in paired] == [(p.tokens, p.proposed, p.accepted) for p in alone]


@pytest.fixture
def ungated(monkeypatch):
    """A small adapter is trained after every second answer, and every update is served, whatever it is worth."""
    monkeypatch.setattr(drift, "LEARNING", LearningSettings(interval=2))
    stream = pytest.importorskip("omnidraft.learning.training.stream", exc_type=ImportError)
    made = stream.plan
    monkeypatch.setattr(stream, "plan", lambda *a, **more: replace(made(*a, **more), gated=False))


@pytest.mark.slow
def test_a_learner_serves_a_new_adapter_after_every_few_answers_and_keeps_one_per_vocabulary(begin, ungated):
    plan = schedule((A, "dialogue", 3), (B, "dialogue", 1), (A, "dialogue", 2))
    run = begin(plan, replace(SHORT, learning=True))
    served = [point.adapter for point in steps(run)]
    assert served[:2] == [None, None]
    of_a, of_b = served[2], served[3]
    assert of_a.endswith("/v000001")
    assert of_b == of_a  # a new vocabulary starts from what the last one taught
    assert served[4] == of_a  # trained on three answers of this vocabulary so far
    assert served[5].endswith("/v000002")
    kept = run.folder.glob(f"adapters/*/{of_a.split('/')[0]}/v*")
    assert sorted(path.name for path in kept) == ["v000001", "v000002"]


def test_a_prompt_that_does_not_fit_fails_in_a_sentence_and_keeps_the_points(begin, home, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("What is tea?\n" + "many words " * 20000 + "\n")
    run = begin(schedule((A, str(own), 2)))
    with pytest.raises(ModelError, match="own-2 cannot be answered"):
        list(run.events())
    state = RunStore(home.root / "runs").load(run.state.id)
    assert (state.status, state.done) == ("failed", 1)


# The store


def test_runs_are_listed_newest_first_and_a_broken_one_hides_no_other(begin, home):
    runs = [begin(schedule((A, "math", 1))) for _ in range(3)]
    store = RunStore(home.root / "runs")
    (runs[1].folder / "run.json").write_text('{"format": "omnidraft-drift"}')
    assert {state.id for state in store.runs()} == {runs[0].state.id, runs[2].state.id}
    with pytest.raises(StorageError, match="damaged"):
        store.load(runs[1].state.id)
    store.delete(runs[0].state.id)
    assert [state.id for state in store.runs()] == [runs[2].state.id]


@pytest.mark.parametrize("name", ["../../etc", "", "x", "20260101-000000-ABCD/..", "20260101-000000-abcd"])
def test_a_name_that_is_no_run_is_refused(home, name):
    with pytest.raises(StorageError, match="There is no drift run"):
        RunStore(home.root / "runs").load(name)


def test_no_text_of_a_prompt_is_stored(begin, home, tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Where do the Quxington walruses sleep?\n")
    run = begin(schedule((A, str(own), 1)))
    steps(run)
    assert all(b"Quxington" not in file.read_bytes() for file in home.root.rglob("*") if file.is_file())


# Tables and pictures


def test_rates_of_segments_are_pooled_and_know_what_was_before():
    first, second = segment_rows(state_of([(8, 10), (0, 30)], [(1, 10), (5, 10), (5, 10)]))
    assert first.acceptance == pytest.approx(0.2)
    assert first.before is None
    assert second.before == pytest.approx(0.2)
    assert second.acceptance == pytest.approx(11 / 30)
    assert (first.speedup, second.speedup) == pytest.approx((2.0, 2.0))
    assert first.interval is None, "two prompts say nothing about others"
    assert second.interval == pytest.approx((2.0, 2.0))


def test_recovery_is_when_the_moving_average_is_back_at_the_old_level():
    fast = segment_rows(state_of([(5, 10)] * 10, [(0, 10)] * 2 + [(5, 10)] * 18))[1]
    assert fast.recovery == 10  # the window of 8 holds no zero from the tenth prompt on
    assert segment_rows(state_of([(5, 10)] * 10, [(1, 10)] * 20))[1].recovery is None


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_names_what_it_shows_and_marks_every_switch(theme):
    drawn = ElementTree.fromstring(picture(state_of([(1, 10)] * 5, [(3, 10)] * 4, [(2, 10)] * 3), theme))
    words = " ".join(text.text for text in drawn.iter(f"{SVG}text"))
    assert "Acceptance" in words
    assert "Speedup" in words
    assert drawn.find(f"{SVG}rect").get("fill") == THEMES[theme][0]
    for plot, rates in zip(drawn.findall(f"{SVG}g"), ([0.1, 0.3, 0.2], [2.0, 2.0, 2.0]), strict=True):
        dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in plot.iter(f"{SVG}circle")]
        switches = [float(line.get("x1")) for line in plot.iter(f"{SVG}line") if line.get("class") == "od-switch"]
        assert [sum(x > at for x, _ in dots) for at in switches] == [7, 3], "behind the fifth and the ninth prompt"
        heights = [dots[at][1] for at in (0, 5, 9)]
        assert sorted(heights, reverse=True) == [heights[i] for i in sorted(range(3), key=lambda i: rates[i])]
        assert [len(line.get("points").split()) for line in plot.iter(f"{SVG}polyline")] == [5, 4, 3]


# The command


def test_the_command_runs_exports_lists_and_shows(home, tmp_path, capsys):
    files = [tmp_path / name for name in ("out/run.svg", "out/run.csv", "out/run.json")]
    args = ["bench", "drift", "--schedule", "a-b-a", "--prompts", "1", "--task", "qa", "--max-tokens", "8",
            "--threads", "1", "--cache", "off", "--json", "--data-dir", str(home.root)]  # fmt: skip
    assert main([*args, "--svg", str(files[0]), "--csv", str(files[1]), "--out", str(files[2])]) == 0
    out = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["target"] for line in out[:3]] == [A, B, A]
    assert [row["target"] for row in out[3]["segments"]] == [A, B, A]
    assert files[0].read_text().startswith("<svg ")
    assert len(files[1].read_text().splitlines()) == 4
    assert json.loads(files[2].read_text())["options"]["cache"] == "off"
    run = out[3]["run"]
    assert main(["bench", "drift", "--list", "--data-dir", str(home.root)]) == 0
    assert run in capsys.readouterr().out
    assert main(["bench", "drift", "--show", run, "--data-dir", str(home.root)]) == 0
    assert capsys.readouterr().out.count(A) == 2
    others = [str(BUNDLED_MODELS / f"{name}-f16.gguf") for name in (B, A)]
    assert main([*args, "--discard", "--target", *others]) == 0
    told = [json.loads(line)["target"] for line in capsys.readouterr().out.splitlines()[:3]]
    assert told == [Path(others[0]).stem, Path(others[1]).stem, Path(others[0]).stem]


@pytest.mark.parametrize(
    "args",
    [["--schedule", "nowhere"], ["--show", "nothing"], ["--schedule", "step", "--prompts", "81"],
     ["--schedule", "step", "--draft-length", "x"], ["--schedule", "step", "--task", "juggling"],
     ["--schedule", "step", "--target", "a", "b"]],
)  # fmt: skip
def test_a_mistake_is_one_sentence(home, capsys, args):
    assert main(["bench", "drift", *args, "--data-dir", str(home.root)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("omnidraft: ")
    assert len(error.strip().splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_ctrl_c_stops_a_run_that_keeps_what_it_has(home):
    process = begun(home, "--max-tokens", "32")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert process.returncode == 130
    assert json.loads(out.splitlines()[-1])["status"] == "stopped"
    assert "Traceback" not in err
    (state,) = RunStore(home.profile().root / "drift").runs()
    assert 1 <= state.done < 80


@pytest.mark.slow
def test_learning_raises_acceptance_within_a_segment(begin):
    run = begin(schedule((A, "math", 40)), Options(threads=1, learning=True))
    steps(run)
    (row,) = segment_rows(run.state)
    assert row.last > 2 * row.first
