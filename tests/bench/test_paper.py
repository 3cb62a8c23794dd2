"""`bench paper`: projections are arithmetic on counted rounds, tables hold what was found, and runs go on."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from omnidraft.__main__ import main
from omnidraft.backends.gguf.file import read_info
from omnidraft.bench.learn_plan import LearnPlan
from omnidraft.bench.learn_tester import Count
from omnidraft.bench.paper import ngrams, report
from omnidraft.bench.paper.machines import DESKTOP, GPU, PAPER, measured, projected
from omnidraft.bench.paper.plan import TABLES, Plan, estimate, full, quick
from omnidraft.bench.paper.plot import png
from omnidraft.bench.paper.run import run
from omnidraft.errors import SettingsError
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import DataHome

# Projections


def test_a_projection_is_tokens_over_passes_and_draft_steps():
    assert projected(PAPER, 30, 40, {5: 10}) == pytest.approx(30 / (10 + 40 * 0.073))
    assert projected(PAPER, 10, 0, {1: 10}) == pytest.approx(1)
    own = measured({1: 0.02, 5: 0.04}, 0.002, "0.5b-Q4_0")
    assert projected(own, 30, 40, {5: 10}) == pytest.approx(30 / (10 * 2 + 40 * 0.1))
    assert own.cost(3) == pytest.approx(1.5)
    assert projected(own, 30, 40, {"5": 10}) == projected(own, 30, 40, {5: 10})  # as JSON has it


@pytest.mark.parametrize("machine", [PAPER, DESKTOP, GPU])
def test_a_machine_says_where_its_figures_come_from(machine):
    curve = [machine.cost(n) for n in range(1, 17)]
    assert curve[0] == pytest.approx(1)
    assert curve == sorted(curve)
    assert 0 < machine.step < 0.1
    assert len(machine.source) > 40


# Plans


@pytest.fixture
def targets(models):
    return [models / "tiny-target-a-f16.gguf", models / "tiny-target-b-f16.gguf"]


def test_the_quick_plan_has_every_table_and_fits_a_quarter_of_an_hour(targets, models):
    plan = quick(targets, models / "tiny-drafter-f16.gguf")
    parts = estimate(plan, 0.001)
    assert set(parts) == set(TABLES)
    assert sum(parts.values()) < 15 * 60
    assert sum(estimate(full(targets, models / "tiny-drafter-f16.gguf"), 0.001).values()) > sum(parts.values())
    with pytest.raises(SettingsError, match="no table"):
        replace(plan, tables=("methods", "magic"))


def test_the_last_rank_is_as_wide_as_the_drafter(targets, models):
    drafter = models / "tiny-drafter-f16.gguf"
    for plan in (quick(targets, drafter), full(targets, drafter)):
        assert plan.rank_list[-1] == read_info(drafter).width
        assert plan.learned.learning.rank in plan.rank_list


# A run


@pytest.fixture
def small(targets, models):
    learning = LearningSettings(interval=4)
    learned = LearnPlan(
        targets[1:], models / "tiny-drafter-f16.gguf", ("math",), ("projected",), train_prompts=4, test_prompts=2,
        seeds=1, train_tokens=24, test_tokens=12, temperatures=(0.0,), curve=False, reference=False, learning=learning,
    )  # fmt: skip
    return Plan(learned, side_tasks=1, tables=("methods", "eviction", "growth", "adapting"))


def made(plan: Plan, folder, told=lambda _line: None) -> dict:
    return list(run(plan, folder, DataHome(folder), told))[-1]


def test_a_run_makes_its_tables_and_goes_on_where_it_stopped(small, tmp_path):
    said: list[str] = []
    tables = made(small, tmp_path, said.append)
    assert "minutes" in said[0]
    assert [row["condition"] for row in tables["methods"]["rows"]] == ["direct", "cache", "projected"]
    assert all(row["answers"] == 2 for row in tables["methods"]["rows"])
    assert [row["drafter"] for row in tables["eviction"]["rows"]] == ["as it came"] * 8 + ["taught"] * 8
    kept = {row["cache"]: row for row in tables["eviction"]["rows"][:8]}
    entries = kept["full"]["entries"]
    assert next(iter(kept)) == "no cache"
    assert len(kept) == 8
    assert kept["0.25 of it, lfu"]["entries"] == max(1, round(entries / 4)) < entries
    assert kept["full"]["of_full"]["mean"] == pytest.approx(1)
    growth = tables["growth"]["rows"]
    assert [row["answers"] for row in growth] == [1, 2, 4]
    assert growth[-1]["entries"] == entries >= growth[0]["entries"] > 0
    adapting = {row["condition"]: row for row in tables["adapting"]["rows"]}
    assert {"neither", "adapt only"} <= adapting.keys()
    assert adapting["adapt only"]["drafted_per_pass"] != adapting["neither"]["drafted_per_pass"]

    said.clear()
    assert made(small, tmp_path, said.append) == tables
    assert not said
    with pytest.raises(SettingsError, match="other learned"):
        made(replace(small, learned=replace(small.learned, test_tokens=13)), tmp_path)
    assert "| tiny-target-b-f16 | math | T=0 | projected |" in "\n".join(report.markdown(tables))
    assert struct.unpack(">II", png(tables)[16:24]) > (600, 400)


def test_speedups_are_shown_beside_projections_and_told_apart():
    row = {
        "target": "t", "task": "qa", "condition": "projected", "regime": "0.5b-F32", "temperature": "default",
        "method": "fixed:4", "tokens_per_second": 9.0, "speedup": 1.2, "speedup_ci": [1.1, 1.3], "acceptance": 0.4,
        "tokens_per_pass": 2.0, "tokens": 30, "drafted": 40, "widths": {"5": 15}, "answers": 10, "long": 9,
        "projected": {PAPER.name: 1.68},
    }  # fmt: skip
    machine = {"name": PAPER.name, "source": PAPER.source, "step": PAPER.step, "passes": {"1": 1.0, "5": 1.0}}
    text = "\n".join(report.markdown({"speed": {"rows": [row], "machines": [machine]}}))
    assert "projections, not measurements" in text
    assert "| 1.20 [1.10, 1.30] | 1.68 | 10 (9) |" in text
    gained = dict(row, method="adaptive", speedup=1.3)
    other = dict(gained, target="u", speedup=1.5)
    text = "\n".join(report.markdown({"speed": {"rows": [row, gained, other], "machines": [machine]}}))
    assert text.startswith("### What you gain")
    assert "| qa | defaults | 1.40 | 1.68 |" in text
    assert "arXiv 2507.02659" in text


@pytest.mark.slow
def test_the_command_times_and_draws(tmp_path):
    out, picture = tmp_path / "paper.json", tmp_path / "paper.png"
    arguments = ["bench", "paper", "--quick", "--data-dir", str(tmp_path), "--target", "tiny-target-b", "--tasks",
                 "math", "--train-prompts", "8", "--test-prompts", "2", "--test-tokens", "12", "--regimes", "bundled",
                 "--timed-prompts", "2", "--tables", "methods,speed,losses,ranks,cache,sizes", "--threads", "1",
                 "--shapes", "bundled",
                 "--out", str(out), "--png", str(picture)]  # fmt: skip
    assert main(arguments) == 0
    tables = json.loads(out.read_bytes())["tables"]
    assert {row["rank"] for row in tables["ranks"]["rows"]} == {8, 32, 192}
    assert [row["target"] for row in tables["sizes"]["rows"]] == ["bundled"]
    assert {row["condition"] for row in tables["losses"]["rows"]} >= {"direct", "cache", "ngram", "dm", "hybrid"}
    timed = tables["speed"]["rows"]
    assert all(len(row["projected"]) == 4 for row in timed)
    assert tables["speed"]["machines"][1]["source"] == "measured in this run"
    assert picture.stat().st_size > 10_000


def test_a_taught_drafter_answers_each_task_with_what_it_learned_there(small, tmp_path):
    side = replace(small.learned, tasks=("math", "code"))
    learned = ngrams.adapter_of(tmp_path, side.targets[0], "math")
    learned.parent.mkdir()
    learned.touch()
    given = []

    class Asked:
        def ask(self, prompts, temperature, tokens, seed, cache, adapter):
            given.append(adapter)
            return [Count(1, 1, 1, 1, False) for _ in prompts]

    for taught in (False, True):
        ngrams._asked(Asked(), side, tmp_path, None, taught)
    assert given == [None, None, learned, None]  # nothing was learned on code
