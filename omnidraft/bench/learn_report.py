"""Tables over the streams of a learning run. Reads results, runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnidraft.bench.report import Report, Table, column_of, label
from omnidraft.lab import statistics as stats

DIRECT, CACHE = "direct", "cache"
_LONG = 32
Groups = dict[tuple[str, str, str], dict[str, dict[int, list]]]


@dataclass(frozen=True)
class Stream:
    """Answers of a target to a task under a seed."""

    target: str
    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.target}-{self.task}-s{self.seed}"


Found = Sequence[tuple[Stream, str, dict]]  # stream, condition, result


def report(found: Found) -> Report:
    made, spent = rows(found), costs(found)
    return Report({"rows": made, "costs": spent}, [accepted(made)] + ([_spent(spent)] if spent else []))


def grouped(found: Found) -> Groups:
    """{(target, task, sampling): {condition: {seed: counts an answer}}}."""
    groups: Groups = {}
    for stream, condition, result in found:
        for column, counts in result["counts"].items():
            group = groups.setdefault((stream.target, stream.task, column), {})
            group.setdefault(condition, {})[stream.seed] = counts
    return groups


def rows(found: Found) -> list[dict[str, Any]]:
    """One per target, task, sampling and condition, training's costs as means over the seeds."""
    costs, made = _costs(found), []
    for (target, task, column), group in grouped(found).items():
        for condition, seeds in group.items():
            counts, every = stats.as_counts(seeds), [answer for answers in seeds.values() for answer in answers]
            made.append({
                "target": target, "task": task, "temperature": column_of(column), "condition": condition,
                "seeds": len(seeds), "acceptance": stats.rate(counts),
                "tokens_per_pass": stats.tokens_per_pass(counts), "answers": len(every),
                "long": sum(answer[2] >= _LONG for answer in every), "looped": sum(answer[4] for answer in every),
                **costs.get((target, task, condition), {}),
            })  # fmt: skip
    return made


def costs(found: Found) -> list[dict[str, Any]]:
    """What the updates of each stream took, in processor seconds: the first one (its process began with it), the median
    of those behind it in the first and in the second half, and 100 answers."""
    made = []
    for stream, condition, result in found:
        if updates := result.get("updates"):
            cpu = [update["cpu"] for update in updates]
            early, late = cpu[1 : (len(cpu) + 1) // 2], cpu[(len(cpu) + 1) // 2 :]
            made.append({"target": stream.target, "task": stream.task, "seed": stream.seed, "loss": condition,
                         "updates": len(cpu), "answers": updates[-1]["answers"], "first": cpu[0],
                         "early": float(np.median(early)) if early else None,
                         "late": float(np.median(late)) if late else None,
                         "per_100": 100 * sum(cpu) / updates[-1]["answers"],
                         "peak_mb": max(update["peak_mb"] for update in updates)})  # fmt: skip
    return made


def _costs(found: Found) -> dict[tuple[str, str, str], dict[str, float]]:
    gathered: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for stream, condition, result in found:
        cost = {f"training_{name}": result[name] for name in ("seconds", "cpu") if name in result}
        if "updates" in result:
            cost["updates"] = len(result["updates"])
            cost["refused"] = sum(not update["published"] for update in result["updates"])
        if "cache" in result:
            cost["cache_learned"] = result["cache"]["entries"] - result["cache"]["seeded"]
        gathered.setdefault((stream.target, stream.task, condition), []).append(cost)
    return {
        key: {name: float(np.mean([cost[name] for cost in costs])) for name in costs[0]}
        for key, costs in gathered.items()
    }


def accepted(made: Sequence[dict]) -> Table:
    return Table(
        "Acceptance at draft length 4 [95%]",
        ["target", "task", "sampling", "condition", "accepted", "tokens/pass", "answers (long, looped)",
         "updates (refused)", "training, processor s"],
        [[r["target"], r["task"], label(r["temperature"]), r["condition"], r["acceptance"], r["tokens_per_pass"],
          f"{r['answers']} ({r['long']}, {r['looped']})",
          f"{r['updates']:g} ({r['refused']:g})" if "updates" in r else None, r.get("training_cpu")] for r in made],
    )  # fmt: skip


def _spent(made: Sequence[dict]) -> Table:
    names = ("target", "task", "seed", "loss", "answers", "updates", "first", "early", "late", "per_100", "peak_mb")
    return Table(
        "What updates cost: processor seconds on their threads, and memory",
        ["target", "task", "seed", "loss", "answers", "updates", "first", "first half", "second half", "100 answers",
         "MB"],
        [[row[name] for name in names] for row in made],
    )  # fmt: skip
