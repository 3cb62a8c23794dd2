"""Learning runs: prompts kept apart, intervals that hold what is known, and a run on the real models end to end."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidraft.__main__ import main
from omnidraft.bench import learn_answers, learn_report
from omnidraft.bench import learn_stats as stats
from omnidraft.bench.learn import Cell
from omnidraft.bench.learn_plan import LearnPlan, choose
from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import TASKS


@pytest.fixture
def plan(models):
    return LearnPlan([models / "tiny-target-b-f16.gguf"], models / "tiny-drafter-f16.gguf", train_prompts=60)


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def asked(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


# Prompts


@pytest.mark.parametrize("task", TASKS)
def test_no_training_prompt_is_a_test_prompt(plan, task):
    chosen = choose(plan, task, seed=1)
    assert len({p.text for p in chosen.train}) == 60  # more than the task has: lessons are added
    assert not {p.text for p in chosen.train} & {p.text for p in chosen.test}


def test_a_prompt_comes_up_again_only_after_all_others(plan):
    train = [p.text for p in choose(replace(plan, train_prompts=400), "math", seed=0).train]
    count = len(set(train))
    assert 200 < count < 400
    assert len(set(train[:count])) == count
    assert train[:count] != train[count : 2 * count]


def test_seeds_draw_another_order_and_the_same_seed_the_same(plan):
    assert choose(plan, "qa", 1).digest == choose(plan, "qa", 1).digest != choose(plan, "qa", 2).digest


def test_a_file_without_splits_gives_every_fifth_prompt_to_the_test(plan, tmp_path):
    own = lines(tmp_path / "own.jsonl", *[asked(f"Question {i}?") for i in range(10)])
    chosen = choose(replace(plan, test_prompts=9), str(own), 0)
    assert {p.text for p in chosen.test} == {"Question 4?", "Question 9?"}
    assert {p.text for p in chosen.train}.isdisjoint({"Question 4?", "Question 9?"})


def test_a_test_prompt_that_is_also_in_the_training_file_is_not_trained_on(plan, tmp_path):
    own = lines(tmp_path / "own.jsonl", asked("What is tea?"), asked("What is milk?"))
    test = lines(tmp_path / "test.jsonl", asked("what is  MILK?"))
    chosen = choose(replace(plan, test_file=test), str(own), 0)
    assert {p.text for p in chosen.train} == {"What is tea?"}
    with pytest.raises(SettingsError, match="no prompts to learn from"):
        choose(replace(plan, test_file=own), str(test), 0)


def test_a_folder_of_prompts_takes_the_place_of_the_bundled_ones(plan, tmp_path):
    lines(tmp_path / "math.jsonl", asked("One?", split="train"), asked("Two?", split="test"))
    chosen = choose(replace(plan, data=tmp_path), "math", 0)
    assert ({p.text for p in chosen.train}, {p.text for p in chosen.test}) == ({"One?"}, {"Two?"})


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"losses": ["mse"]}, {"tasks": ["math"], "sequence": True}])
def test_an_absurd_plan_is_refused(plan, wrong):
    with pytest.raises(SettingsError):
        replace(plan, **wrong)


# Intervals


def counts(rng, rate, answers=40):
    accepted = rng.binomial(30, rate, answers)
    return np.stack([np.full(answers, 30), accepted, accepted + 10, np.full(answers, 10)], 1)


def test_rates_are_ratios_of_sums_and_intervals_hold_them():
    rng = np.random.default_rng(0)
    seeds = [counts(rng, 0.3) for _ in range(3)]
    rate = stats.rate(seeds)
    every = np.concatenate(seeds).sum(0)
    assert rate.mean == pytest.approx(every[1] / every[0])
    assert rate.low < 0.3 < rate.high
    assert rate.high - rate.low < 0.1
    assert stats.tokens_per_pass(seeds).mean == pytest.approx(every[2] / every[3])


def test_differences_are_paired():
    rng = np.random.default_rng(1)
    base = [counts(rng, p) for p in (0.2, 0.4, 0.6)]  # prompts and seeds differ far more than the conditions
    better = [np.stack([c[:, 0], c[:, 1] + 1, c[:, 2] + 1, c[:, 3]], 1) for c in base]
    found = stats.difference(better, base)
    assert found.mean == pytest.approx(1 / 30)
    assert found.low == pytest.approx(found.high) == pytest.approx(1 / 30)
    assert stats.rate(base).high - stats.rate(base).low > 0.2


def test_the_share_of_a_gap():
    low, half, high = ([np.array([[100, n, 100, 50]])] for n in (10, 30, 50))
    assert stats.share(half, low, high).mean == pytest.approx(0.5)
    assert stats.times(half, low).mean == pytest.approx(3.0)
    assert np.isnan(stats.share(low, low, low).mean)


def test_reports_share_one_set_of_rows_and_say_what_a_sequence_kept():
    def result(accepted, **more):
        return {"counts": {"0": {"math": [[100, accepted, 120, 60, False]] * 3}}, **more}

    def stops(*accepted):
        return [{"answers": i, "published": True, "counts": result(n)["counts"]} for i, n in enumerate(accepted, 1)]

    cell = Cell("t", "math", 0, Path())
    found = [(cell, "direct", result(5)), (cell, "cache", result(10)),
             (cell, "dm", result(30, updates=stops(30), cpu=3.0)), (cell, "offline", result(50))]  # fmt: skip
    sequence = Cell("t", "sequence", 0, Path())
    found += [(sequence, "cache", result(10)), (sequence, "dm", result(28, updates=stops(30, 28)))]
    row = next(row for row in learn_report.rows(found) if row["condition"] == "dm")
    assert (row["gap_closed"].mean, row["times_direct"].mean) == (pytest.approx(0.5), pytest.approx(6))
    kept = learn_report.retention(found)
    assert len(kept) == 1
    assert kept[0]["gain_kept"].mean == pytest.approx(0.9)
    table = "\n".join(learn_report.markdown(found))
    assert "| t, math | dm | 1 | 0.300 [0.300, 0.300] | 6.0 [6.0, 6.0] | 0.500 [0.500, 0.500] | 2.0" in table


# A run


SMALL = ["--train-tokens", "40", "--test-tokens", "16", "--test-prompts", "2", "--temperature", "0", "--seeds", "1"]


def bench(tmp_path, *more):
    out = tmp_path / "learn.json"
    arguments = ["bench", "learn", "--data-dir", str(tmp_path), "--target", "tiny-target-b", "--json", str(out)]
    assert main([*arguments, *SMALL, *more]) == 0
    return json.loads(out.read_bytes())


@pytest.mark.timeout(900)  # 40 seconds, and many times that beside other programs
def test_a_run_learns_reports_and_goes_on_where_it_stopped(tmp_path, capsys):
    picture = tmp_path / "curve.png"
    found = bench(tmp_path, "--tasks", "math", "--train-prompts", "16", "--png", str(picture))
    rows = {row["condition"]: row for row in found["rows"]}
    assert list(rows) == ["direct", "cache", "projected", "offline"]
    assert rows["projected"]["training_cpu"] > 0 < rows["cache"]["cache_learned"]
    assert rows["direct"]["times_direct"]["mean"] == 1
    assert rows["offline"]["gap_closed"]["mean"] in (None, pytest.approx(1))
    assert struct.unpack(">II", picture.read_bytes()[16:24]) > (200, 200)
    capsys.readouterr()

    cell = tmp_path / "learn.cells" / "tiny-target-b-f16-math-s0"
    before = {path: path.stat().st_mtime_ns for path in cell.glob("*.json")}
    again = bench(tmp_path, "--tasks", "math", "--train-prompts", "16", "--loss", "projected,dm", "--speed", "bundled")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [row["condition"] for row in again["rows"]] == [*rows, "dm"]
    assert [(row["other"], row["one"]) for row in again["pairs"]][:3] == [
        ("direct", "cache"), ("cache", "dm"), ("dm", "projected"),
    ]  # fmt: skip
    timed = {(row["condition"], row["method"]): row for row in again["speed"]}
    assert len(timed) == len(again["speed"]) == 6  # three drafters by two methods
    assert timed["cache", "fixed:4"]["acceptance"] == pytest.approx(rows["cache"]["acceptance"]["mean"], abs=0.2)
    begun = [line for line in capsys.readouterr().err.splitlines() if "seed 0" in line]
    assert begun == ["tiny-target-b-f16 math seed 0: dm"]


def test_cells_of_another_plan_are_not_mixed_in(tmp_path, capsys):
    arguments = ["--tasks", "qa", "--train-prompts", "8", "--no-reference", "--no-curve"]
    bench(tmp_path, *arguments)
    out = str(tmp_path / "learn.json")
    code = main(["bench", "learn", "--data-dir", str(tmp_path), "--target", "tiny-target-b", "--json", out, *SMALL,
                 *arguments, "--learning-rate", "0.1"])  # fmt: skip
    assert code == 2
    assert "holds a run with other learning" in capsys.readouterr().err


def question(text: str) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text}]})


def test_cells_made_on_other_prompts_are_not_taken_over(tmp_path, capsys):
    own = tmp_path / "own.jsonl"
    arguments = ["--tasks", str(own), "--train-prompts", "4", "--no-reference", "--no-curve"]
    own.write_text("".join(question(f"What is {n} plus {n}?") + "\n" for n in range(12)))
    bench(tmp_path, *arguments)
    own.write_text("".join(question(f"What is {n} times {n}?") + "\n" for n in range(12)))
    out = str(tmp_path / "learn.json")
    code = main(["bench", "learn", "--data-dir", str(tmp_path), "--target", "tiny-target-b", "--json", out, *SMALL,
                 *arguments])  # fmt: skip
    assert code == 2
    assert "holds a run on other prompts" in capsys.readouterr().err


def test_answers_of_another_run_are_taken_over_only_if_they_are_the_same_answers(tmp_path):
    made = {"models": {"t": "1234"}, "train_tokens": 40, "train_temperature": 1.0}
    cells = tmp_path / "other.cells" / "methods"
    cells.mkdir(parents=True)
    (cells / "t-math-s0-abc.answers").write_bytes(b"answers")
    (cells / "plan.json").write_text(json.dumps(made | {"models": {"t": "1234", "u": "5"}, "test_prompts": 3}))
    mine = tmp_path / "t-math-s0-abc.answers"
    for other in ({"train_tokens": 41}, {"models": {"t": "9999"}}):
        assert not learn_answers.taken_over(mine, tmp_path / "other.cells", made | other)
    assert not learn_answers.taken_over(tmp_path / "t-math-s0-xyz.answers", tmp_path / "other.cells", made)
    assert not mine.exists()
    assert learn_answers.taken_over(mine, tmp_path / "other.cells", made)
    assert mine.read_bytes() == b"answers"
    with pytest.raises(StorageError, match="no folder"):
        learn_answers.taken_over(mine, tmp_path / "none", made)


@pytest.mark.slow
def test_a_run_learns_from_answers_another_one_recorded(tmp_path, capsys):
    arguments = ["--tasks", "qa", "--train-prompts", "4", "--no-reference", "--no-curve"]
    first = bench(tmp_path, *arguments)
    (tmp_path / "again").mkdir()
    capsys.readouterr()
    again = bench(tmp_path / "again", *arguments, "--from", str(tmp_path / "learn.json"))
    assert "answers taken from" in capsys.readouterr().err
    rates = [[row["acceptance"] for row in found["rows"]] for found in (first, again)]
    assert rates[0] == rates[1]


@pytest.mark.slow
def test_a_sequence_says_what_the_first_task_keeps(tmp_path):
    found = bench(tmp_path, "--tasks", "math,qa", "--train-prompts", "16", "--sequence", "--no-reference")
    kept = found["sequences"][0]
    assert (kept["task"], kept["loss"], kept["seeds"]) == ("math", "projected", 1)
    assert {"untrained", "after_first", "after_all", "gain_kept"} <= kept.keys()
