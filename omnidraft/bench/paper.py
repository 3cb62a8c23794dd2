"""`bench paper`: the published tables across vocabularies, each made by the benchmark that measures its kind.

methods, losses: streams of `bench learn` at draft length 4 (Tables 1 and 6; losses on the first target with one seed).
cache: `bench cache` (Table 5). speed: `bench speed` with what the methods learned under seed 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import cache, learn, learn_report, regimes, speed
from omnidraft.bench.plans import LOSSES, TABLES, Cache, Learn, Paper, Speed
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Cells, Work
from omnidraft.errors import SettingsError

METHODS = ("dm", "hybrid", "projected")
_QUICK: dict[str, Any] = {
    "tasks": ("math", "code"),
    "seeds": 1,
    "train_prompts": 16,
    "test_prompts": 6,
    "timed_prompts": 3,
}


def run(plan: Paper, work: Work) -> Iterator[Report]:
    """All tables so far, whenever one has grown."""
    if unknown := [name for name in plan.tables if name not in TABLES]:
        raise SettingsError(f"There is no table {unknown[0]}; known are {', '.join(TABLES)}.")
    if plan.quick:
        plan = replace(plan, **_QUICK)
    made: dict[str, Report] = {}
    for name, maker in {"methods": _methods, "losses": _losses, "cache": _cache, "speed": _speed}.items():
        for report in maker(plan, work) if name in plan.tables else ():
            made[name] = report
            yield Report(
                {"tables": {name: one.values for name, one in made.items()}},
                [table for one in made.values() for table in one.tables],
            )


def _learned(plan: Paper, losses: Sequence[str], **more: Any) -> Learn:
    names = ("drafter", "threads", "target", "tasks", "seeds", "train_prompts", "train_tokens", "test_prompts",
             "test_tokens", "temperature")  # fmt: skip
    return Learn(loss=tuple(losses), **{name: getattr(plan, name) for name in names} | more)


def _streams(plan: Learn, work: Work) -> Iterator[learn_report.Found]:
    """Streams below "methods", so that the losses go on from what the methods made."""
    inner, found = replace(work, cells=Cells(work.cells.folder / "methods")), []
    for one in learn.results(plan, inner):
        found.append(one)
        yield found


def _methods(plan: Paper, work: Work) -> Iterator[Report]:
    for found in _streams(_learned(plan, METHODS), work):
        rows, pairs = learn_report.rows(found), learn_report.pairs(found)
        title = "Methods (Table 1): acceptance at draft length 4, mean and 95% interval"
        tables = [learn_report.accepted(rows, title), learn_report.differences(pairs)]
        yield Report({"rows": rows, "pairs": pairs}, tables)


def _losses(plan: Paper, work: Work) -> Iterator[Report]:
    for found in _streams(_learned(plan, LOSSES, target=plan.target[:1], seeds=1), work):
        rows = learn_report.rows(found)
        yield Report({"rows": rows}, [learn_report.accepted(rows, "Losses (Table 6): draft length 4")])


def _cache(plan: Paper, work: Work) -> Iterator[Report]:
    asked = Cache(plan.drafter, plan.threads, plan.target, plan.tasks, plan.test_prompts, plan.test_tokens, ("0",))
    for report in cache.run(asked, work):
        yield Report({"rows": report.values}, report.tables)


def _speed(plan: Paper, work: Work) -> Iterator[Report]:
    """`bench speed` with the drafter as it came and as each method left it, on every task that it learned."""
    for _ in _streams(_learned(plan, METHODS, seeds=1), work):
        pass  # the adapters that are timed
    rows: list[dict[str, Any]] = []
    for name, task, condition in product(plan.target, plan.tasks, ("untrained", *METHODS)):
        target, drafter = choose_target(name, work.home), need_drafter(plan.drafter, work.home)
        adapter = learn.adapter_of(work.cells.folder / "methods", target, task, condition)
        if adapter is not None:  # where no update was let through the drafter as it came is what is served
            drafter, _ = regimes.taught(work.home, "bundled", adapter, drafter)
        asked = Speed(
            str(drafter), plan.threads, (name,), None, plan.regimes, (task,), ("plain", "fixed:4", "adaptive"),
            plan.temperature, plan.timed_prompts, max_tokens=plan.test_tokens,
        )  # fmt: skip
        inner = replace(work, cells=Cells(work.cells.folder / f"speed-{task}-{condition}"))
        timed = [row for cell in speed.results(asked, inner) for row in cell["rows"]]
        rows += [{"condition": condition} | row for row in timed if row["method"] != "plain"]
        yield Report({"rows": rows}, [_table(rows)])


def _table(rows: Sequence[dict]) -> Table:
    head = ["drafter", *speed.HEAD]
    return Table("Speedups with drafters that learned", head, [[r["condition"], *speed.cells(r)] for r in rows])
