"""`bench cache`: what the n-gram cache is worth without training: without it, learning from nothing, and seeded.

Drafts of four pieces. Every kind of cache answers a task's prompts one after another and learns as it goes. A cell is
one target with one kind of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from omnidraft.bench.columns import Column, label, sampling_of
from omnidraft.bench.pairs import Pair, Way
from omnidraft.bench.plans import Cache
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work, each_cell
from omnidraft.lab.prompts import load_prompts
from omnidraft.settings.config import CacheSettings, ModelSettings

CACHES = {
    "direct map": CacheSettings(enabled=False),
    "cache, empty": CacheSettings(seed=False),
    "cache, seeded": CacheSettings(),
}


def run(plan: Cache, work: Work) -> Iterator[Report]:
    rows: list[dict] = []
    for found in each_cell(plan, work, "cache", partial(_cell, plan, work)):
        rows += found
        yield Report(rows, [table(rows)])


def _cell(plan: Cache, work: Work, target: Path, drafter: Path, column: Column) -> list[dict[str, Any]]:
    """A row per task and kind of cache, then one over all tasks."""
    rows = []
    for kind, settings in CACHES.items():
        work.told(f"{target.stem} {label(column)}: {kind}")
        with Pair(work.home, target, drafter, ModelSettings(threads=plan.threads), settings) as pair:
            sums = {task: _sums(pair, plan, task, column) for task in plan.tasks}
        sums["all"] = [sum(part) for part in zip(*sums.values(), strict=True)]
        names = {"target": target.stem, "temperature": column}
        for task, (proposed, accepted, tokens, passes) in sums.items():
            rates = {"acceptance_rate": accepted / max(proposed, 1), "tokens_per_pass": tokens / max(passes, 1)}
            rows.append({**names, "task": task, "cache": kind, "proposed": proposed, "accepted": accepted, **rates})
    return rows


def _sums(pair: Pair, plan: Cache, task: str, column: Column) -> list[int]:
    """[proposed, accepted, tokens, target passes] over the task's first prompts."""
    sums = [0, 0, 0, 0]
    for number, prompt in enumerate(load_prompts(task, limit=plan.prompts)):
        sampling = sampling_of(column, seed=number, max_tokens=plan.max_tokens)
        trace = pair.answer(Way("fixed:4"), prompt.messages, sampling)
        found = (trace.proposed, trace.accepted, trace.tokens, len(trace.rounds))
        sums = [a + b for a, b in zip(sums, found, strict=True)]
    return sums


def table(rows: Sequence[dict]) -> Table:
    return Table(
        "The n-gram cache without training: drafts of four pieces",
        ["target", "sampling", "task", "cache", "accepted", "tokens/pass"],
        [[r["target"], label(r["temperature"]), r["task"], r["cache"], r["acceptance_rate"], r["tokens_per_pass"]]
         for r in rows],
    )  # fmt: skip
