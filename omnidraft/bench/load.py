"""`bench load`: tokens per second beside busy programs, our own choice of threads against every fixed number of them.

0, 1 and as many busy programs as there are cores run beside. One target is loaded once for every number of threads and
once with the app's choice; under one load all of them answer the same prompts in turns. A cell is one regime with one
method under one load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from omnidraft.app.default_models import choose_target, need_drafter
from omnidraft.bench import regimes
from omnidraft.bench.busy import busy_processes
from omnidraft.bench.columns import sampling_of
from omnidraft.bench.pairs import Pair, Way, draft_settings
from omnidraft.bench.plans import Load
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work, decides, in_turns
from omnidraft.lab import statistics as stats
from omnidraft.lab.prompts import Prompt, load_prompts
from omnidraft.processes.cores import physical_cores
from omnidraft.settings.config import ModelSettings

OURS = 0  # threads as the app chooses
_QUICK: dict[str, Any] = {"prompts": 2, "max_tokens": 16}


def run(plan: Load, work: Work) -> Iterator[Report]:
    """All cells so far."""
    for method in plan.methods:
        draft_settings(method)
    if plan.quick:
        plan = replace(plan, **_QUICK)
    target, drafter = choose_target(plan.target, work.home), need_drafter(plan.drafter, work.home)
    depends = decides(plan, ("regimes", "methods", "quick"), target, drafter, cores=physical_cores())
    rows: list[dict] = []
    for regime in plan.regimes:
        with _Loaded(plan, work, regime, target, drafter) as loaded:
            for method in plan.methods:
                for load, count in loads().items():
                    make = partial(loaded.cell, method, load, count)
                    rows.append(work.cells.get(f"{target.stem}-{regime}-{method}-{load}", depends, make))
                    yield _report(rows)


def loads() -> dict[str, int]:
    """Busy programs by the name of the load."""
    return {"silent": 0, "one_busy": 1, "all_busy": physical_cores()}


class _Loaded:
    """One target in a regime, loaded once for every number of threads when the first cell is missing."""

    def __init__(self, plan: Load, work: Work, regime: str, target: Path, drafter: Path) -> None:
        self._plan, self._work, self._regime = plan, work, regime
        self._target, self._drafter = target, drafter
        self._pairs: dict[int, Pair] = {}
        self._closing = ExitStack()

    def __enter__(self) -> _Loaded:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def cell(self, method: str, load: str, count: int) -> dict[str, Any]:
        plan, way = self._plan, Way(method)
        self._open()
        for pair in self._pairs.values():
            pair.forget()
        prompts = load_prompts(plan.task, split="test", limit=plan.prompts)
        ask = partial(self._ask, way)
        with busy_processes(count):
            in_turns(list(self._pairs), load_prompts(plan.task, split="train", limit=1), ask)  # warms up
            self._work.told(f"{self._regime} {method}: {load}, {count} busy")
            found = in_turns(list(self._pairs), prompts, ask)
        speeds = {threads: [trace.tokens / trace.decode for trace in traces] for threads, traces in found.items()}
        best = max((threads for threads in speeds if threads != OURS), key=lambda threads: median(speeds[threads]))
        spread = stats.median(stats.each(found[best], found[OURS]))
        return {
            "regime": self._regime, "method": method, "load": load, "busy": count, "ours": median(speeds[OURS]),
            "best_fixed": median(speeds[best]), "best_threads": best, "ratio": spread.mean,
            "ratio_ci": (spread.low, spread.high),
            "speeds": {threads or "ours": {"median": median(found), "quartiles": stats.quartiles(found)}
                       for threads, found in speeds.items()},
        }  # fmt: skip

    def _open(self) -> None:
        if self._pairs:
            return
        files = regimes.models(self._work.home, self._regime, self._target, self._drafter)
        for threads in (OURS, *range(1, physical_cores() + 1)):
            pair = Pair(self._work.home, *files, ModelSettings(threads=threads, n_ctx=512))
            self._pairs[threads] = self._closing.enter_context(pair)

    def _ask(self, way: Way, threads: int, number: int, prompt: Prompt) -> Any:
        sampling = sampling_of(0.0, seed=number, max_tokens=self._plan.max_tokens)
        return self._pairs[threads].answer(way, prompt.messages, sampling)


def _report(rows: Sequence[dict]) -> Report:
    """By load the geometric means over regimes and methods, and every cell. best_fixed: chosen afterwards, cell by
    cell, as nobody could beforehand."""
    values: dict[str, Any] = {}
    for load in dict.fromkeys(row["load"] for row in rows):
        mine = [row for row in rows if row["load"] == load]
        values[load] = {name: stats.geometric([row[name] for row in mine]) for name in ("ours", "best_fixed", "ratio")}
    head = ["regime", "method", "load", "ours, tokens/s", "best fixed", "its threads", "ours over it [95%]"]
    body = [
        [r["regime"], r["method"], f"{r['load']} ({r['busy']} busy)", r["ours"], r["best_fixed"], r["best_threads"],
         stats.Value(r["ratio"], *r["ratio_ci"])] for r in rows
    ]  # fmt: skip
    title = "Threads as the app chooses against the best fixed number: medians over answers, in turns"
    return Report(values | {"rows": list(rows)}, [Table(title, head, body)])
