"""Tables over the streams of a learning run. Reads results, runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from omnidraft.bench.columns import column_of, label
from omnidraft.bench.plans import LOSSES
from omnidraft.bench.report import Report, Table
from omnidraft.lab import statistics as stats

DIRECT, CACHE, SEQUENCE = "direct", "cache", "sequence"
_PAPERS_ORDER = (DIRECT, CACHE, *LOSSES)  # worst first
_LONG = 32
Groups = dict[tuple[str, str, str], dict[str, dict[int, list]]]


@dataclass(frozen=True)
class Stream:
    """Answers of a target under a seed. task: or SEQUENCE, all tasks one after the other."""

    target: str
    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.target}-{self.task}-s{self.seed}"


Found = Sequence[tuple[Stream, str, dict]]  # stream, condition, result


def report(found: Found) -> Report:
    made, between, kept, spent = rows(found), pairs(found), sequences(found), costs(found)
    tables = [accepted(made), differences(between)] + ([_spent(spent)] if spent else [])
    values = {"rows": made, "pairs": between, "sequences": kept, "costs": spent}
    return Report(values, tables + ([_sequences(kept)] if kept else []))


def grouped(found: Found) -> Groups:
    """{(target, task, sampling): {condition: {seed: counts an answer}}} of the single tasks."""
    groups: Groups = {}
    for stream, condition, result in found:
        for column, tasks in result["counts"].items() if stream.task != SEQUENCE else ():
            group = groups.setdefault((stream.target, stream.task, column), {})
            group.setdefault(condition, {})[stream.seed] = tasks[stream.task]
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


def pairs(found: Found) -> list[dict[str, Any]]:
    """Differences of acceptance from each condition to the next in the paper's order, over the seeds both have."""
    made = []
    for (target, task, column), group in grouped(found).items():
        for one, other in pairwise(name for name in _PAPERS_ORDER if name in group):
            seeds = group[one].keys() & group[other].keys()
            both = [stats.as_counts({seed: group[name][seed] for seed in seeds}) for name in (other, one)]
            made.append({"target": target, "task": task, "temperature": column_of(column), "one": other, "other": one,
                         "difference": stats.difference(*both)})  # fmt: skip
    return made


def sequences(found: Found) -> list[dict[str, Any]]:
    """Of the first task's gain, the share that is left when the others were learned, per target and loss."""
    streams: dict[tuple[str, str], dict[int, dict]] = {}
    for stream, condition, result in found:
        if stream.task == SEQUENCE:
            streams.setdefault((stream.target, condition), {})[stream.seed] = result
    made = []
    for (target, loss), results in streams.items():
        base = streams.get((target, CACHE), {})
        if seeds := [seed for seed in results if "updates" in results[seed] and seed in base]:
            made.append({"target": target, "loss": loss, "seeds": len(seeds)}
                        | _kept([base[s] for s in seeds], [results[s] for s in seeds]))  # fmt: skip
    return made


def _kept(base: Sequence[dict], results: Sequence[dict]) -> dict[str, Any]:
    stops = [[update["counts"] for update in result["updates"] if "counts" in update] for result in results]
    column = next(iter(stops[0][0]))
    task = next(iter(stops[0][0][column]))
    low, first, last = (
        stats.as_counts({seed: counts[column][task] for seed, counts in enumerate(found)})
        for found in ([one["counts"] for one in base], [one[0] for one in stops], [one[-1] for one in stops])
    )
    return {"task": task, "temperature": column_of(column), "untrained": stats.rate(low),
            "after_first": stats.rate(first), "after_all": stats.rate(last),
            "gain_kept": stats.share(last, low, first)}  # fmt: skip


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


def differences(made: Sequence[dict]) -> Table:
    return Table(
        "Differences between neighbours in the paper's order, paired",
        ["target", "task", "sampling", "pair", "difference of acceptance"],
        [[r["target"], r["task"], label(r["temperature"]), f"{r['one']} - {r['other']}", r["difference"]]
         for r in made],
    )  # fmt: skip


def _spent(made: Sequence[dict]) -> Table:
    names = ("target", "task", "seed", "loss", "answers", "updates", "first", "early", "late", "per_100", "peak_mb")
    return Table(
        "What updates cost: processor seconds on their threads, and memory",
        ["target", "task", "seed", "loss", "answers", "updates", "first", "first half", "second half", "100 answers",
         "MB"],
        [[row[name] for name in names] for row in made],
    )  # fmt: skip


def _sequences(made: Sequence[dict]) -> Table:
    return Table(
        "Tasks one after the other: what is left of the first one's gain",
        ["target", "first task", "sampling", "loss", "untrained", "after it", "after all", "gain kept"],
        [[r["target"], r["task"], label(r["temperature"]), r["loss"], r["untrained"], r["after_first"], r["after_all"],
          r["gain_kept"]] for r in made],
    )  # fmt: skip
