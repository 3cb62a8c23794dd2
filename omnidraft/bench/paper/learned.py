"""The tables that come of learning: methods, losses and ranks of adapters. All are cells of `bench learn`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from omnidraft.bench import learn, learn_report
from omnidraft.bench import learn_stats as stats
from omnidraft.bench.learn import CACHE, Cell, Result, Told
from omnidraft.bench.learn_plan import LearnPlan, label
from omnidraft.bench.paper.plan import Plan

LONG = 32
Found = list[tuple[Cell, str, Result]]
Rows = list[dict]


def methods(plan: Plan, folder: Path, maps: Path, told: Told) -> dict[str, Rows]:
    """Acceptance of each method on every task and target, and the differences between neighbours."""
    found = list(learn.run(plan.learned, folder, maps, told))
    return {"rows": _rows(found), "pairs": _plain(learn_report.pairs(found))}


def adapter_of(folder: Path, target: Path, task: str) -> Path:
    """What `methods` learned on a task with seed 0 and `projected`; not there where no update was let through."""
    return folder / f"{target.stem}-{label(task)}-s0" / "projected.gguf"


def losses(plan: Plan, folder: Path, maps: Path, told: Told) -> dict[str, Rows]:
    """Every loss on one target, in the folder of the methods, whose cells are taken as they are."""
    found = list(learn.run(plan.side(losses=tuple(plan.losses)), folder, maps, told))
    return {"rows": _rows(found)}


def ranks(plan: Plan, folder: Path, recorded: Path, maps: Path, told: Told) -> dict[str, Rows]:
    """Acceptance by rank, from the same answers. share: of the last rank's gain over the untrained drafter."""
    counts: dict[int, list[np.ndarray]] = {}
    untrained: list[np.ndarray] = []
    column = None
    for rank in plan.rank_list:
        told(f"rank {rank}")
        one: LearnPlan = replace(plan.ranked(rank), recorded=recorded if recorded.is_dir() else None)
        found = list(learn.run(one, folder / f"rank-{rank}", maps, told))
        for (_, _, column), group in learn_report.grouped(found).items():  # noqa: B007 - the last one is shown
            counts[rank] = [*group["projected"].values()]
            untrained = [*group[CACHE].values()]
    last = counts[plan.rank_list[-1]]
    return {"rows": [
        {"rank": rank, "sampling": column, "acceptance": asdict(stats.rate(found)),
         "tokens_per_pass": asdict(stats.tokens_per_pass(found)),
         "share": _finite(stats.share(found, untrained, last))}
        for rank, found in counts.items()
    ]}  # fmt: skip


def _rows(found: Found) -> Rows:
    """`bench learn`'s rows, with how many answers were long and how many looped."""
    sizes: dict[tuple, list[list[int]]] = {}
    for cell, condition, result in found:
        for column, tasks in result["counts"].items():
            for task, counts in tasks.items():
                sizes.setdefault((cell.target, task, column, condition), []).extend(counts)
    made = _plain(learn_report.rows(found))
    for row in made:
        column = row["temperature"] if isinstance(row["temperature"], str) else f"{row['temperature']:g}"
        counts = sizes[row["target"], row["task"], column, row["condition"]]
        row |= {"answers": len(counts), "long": sum(c[2] >= LONG for c in counts), "looped": sum(c[4] for c in counts)}
    return made


def _plain(rows: Sequence[dict]) -> Rows:
    return [{name: _finite(v) if isinstance(v, stats.Value) else v for name, v in row.items()} for row in rows]


def _finite(value: stats.Value) -> dict:
    """JSON has no NaN."""
    return {name: number if np.isfinite(number) else None for name, number in asdict(value).items()}
