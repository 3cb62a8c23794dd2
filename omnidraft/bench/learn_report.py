"""Tables over the cells of a learning run, as rows for JSON and lines for people. Reads results, runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise

import numpy as np

from omnidraft.bench import learn_stats as stats
from omnidraft.bench.columns import column_of, label
from omnidraft.bench.learn import CACHE, DIRECT, OFFLINE, SEQUENCE, Cell, Result
from omnidraft.bench.learn_stats import Value

Found = Sequence[tuple[Cell, str, Result]]
# Worst first, as in the paper's tables; the last loss is ours.
PAPERS_ORDER = (DIRECT, CACHE, "ngram", "dm", "dm_nll", "hybrid", "hybrid_p", "both_kl", "projected")
Groups = dict[tuple[str, str, str], dict[str, dict[int, np.ndarray]]]


def grouped(found: Found) -> Groups:
    """{(target, task, temperature): {condition: {seed: (answers, 4) counts}}} of the single-task cells."""
    groups: Groups = {}
    for cell, condition, result in found:
        if cell.task != SEQUENCE:
            for temperature, tasks in result["counts"].items():
                group = groups.setdefault((cell.target, cell.task, temperature), {})
                group.setdefault(condition, {})[cell.seed] = np.array(tasks[cell.task], float)[:, :4]
    return groups


def rows(found: Found) -> list[dict]:
    """One per target, task, temperature and condition. Gains compare the seeds that both conditions have."""
    costs = _costs(found)
    made = []
    for (target, task, temperature), group in grouped(found).items():
        for condition, counts in group.items():
            row = {"target": target, "task": task, "temperature": column_of(temperature), "condition": condition,
                   "seeds": len(counts), "acceptance": stats.rate([*counts.values()]),
                   "tokens_per_pass": stats.tokens_per_pass([*counts.values()])}  # fmt: skip
            if DIRECT in group:
                row["times_direct"] = stats.times(*_common(group, condition, DIRECT))
            if {CACHE, OFFLINE} <= group.keys() and condition not in (DIRECT, CACHE):
                row["gap_closed"] = stats.share(*_common(group, condition, CACHE, OFFLINE))
            made.append(row | costs.get((target, task, condition), {}))
    return made


def pairs(found: Found) -> list[dict]:
    """Differences of acceptance from each condition to the next in the paper's order, over all seeds both have."""
    made = []
    for (target, task, temperature), group in grouped(found).items():
        for one, other in pairwise(name for name in PAPERS_ORDER if name in group):
            made.append({"target": target, "task": task, "temperature": column_of(temperature), "one": other,
                         "other": one, "difference": stats.difference(*_common(group, other, one))})  # fmt: skip
    return made


def retention(found: Found) -> list[dict]:
    """Of the first task's gain in a sequence, the share that is left after the last task, per target and loss."""
    made: list[dict] = []
    kept: dict[tuple[str, str], dict[int, dict]] = {}
    for cell, condition, result in found:
        if cell.task == SEQUENCE:
            kept.setdefault((cell.target, condition), {})[cell.seed] = result
    for (target, loss), results in kept.items():
        base = kept.get((target, CACHE), {})
        seeds = [seed for seed in results if seed in base and "updates" in results[seed]]
        if seeds:
            made.append({"target": target, "loss": loss, "seeds": len(seeds)} | _retained(
                [results[s] for s in seeds], [base[s] for s in seeds]))  # fmt: skip
    return made


def _retained(results: Sequence[Result], base: Sequence[Result]) -> dict:
    stops = [[u["counts"] for u in result["updates"] if "counts" in u] for result in results]
    temperature = next(iter(stops[0][0]))
    task = next(iter(stops[0][0][temperature]))
    cut = lambda counts: [np.array(c[temperature][task], float)[:, :4] for c in counts]  # noqa: E731
    low, first, last = cut([b["counts"] for b in base]), cut([s[0] for s in stops]), cut([s[-1] for s in stops])
    return {"task": task, "temperature": column_of(temperature), "untrained": stats.rate(low),
            "after_first": stats.rate(first), "after_all": stats.rate(last),
            "gain_kept": stats.share(last, low, first)}  # fmt: skip


def _common(group: dict[str, dict[int, np.ndarray]], *conditions: str) -> list[list[np.ndarray]]:
    seeds = set.intersection(*(set(group[name]) for name in conditions))
    return [[group[name][seed] for seed in sorted(seeds)] for name in conditions]


def _costs(found: Found) -> dict[tuple[str, str, str], dict]:
    """Means over seeds: seconds and processor seconds of training, updates and those refused, cache entries learned."""
    gathered: dict[tuple[str, str, str], list[dict]] = {}
    for cell, condition, result in found:
        cost = {f"training_{name}": result[name] for name in ("seconds", "cpu", "passes") if name in result}
        if "updates" in result:
            cost["updates"] = len(result["updates"])
            cost["refused"] = sum(not u["published"] for u in result["updates"])
        if "cache" in result:
            cost["cache_entries"] = result["cache"]["entries"]
            cost["cache_learned"] = result["cache"]["entries"] - result["cache"]["seeded"]
            cost["cache_mb"] = result["cache"]["bytes"] / 1e6
        gathered.setdefault((cell.target, cell.task, condition), []).append(cost)
    return {
        key: {name: float(np.mean([cost[name] for cost in costs])) for name in costs[0]}
        for key, costs in gathered.items()
    }


def as_json(found: Found, plan: dict) -> dict:
    plain = lambda rows: [{k: _plain(v) for k, v in row.items()} for row in rows]  # noqa: E731
    return {"plan": plan, "rows": plain(rows(found)), "pairs": plain(pairs(found)),
            "sequences": plain(retention(found))}  # fmt: skip


def _plain(value: object) -> object:
    """JSON has no NaN: what is not defined becomes null."""
    if not isinstance(value, Value):
        return value
    return {name: number if np.isfinite(number) else None for name, number in asdict(value).items()}


def lines(found: Found) -> Iterable[str]:
    """The tables as text."""
    for row in rows(found):
        more = f"  x{row['times_direct'].mean:5.2f}" if "times_direct" in row else ""
        more += f"  gap closed {row['gap_closed']}" if "gap_closed" in row else ""
        more += f"  {row['training_cpu']:.0f} s training" if "training_cpu" in row else ""
        yield (f"{row['target']:18} {row['task']:9} {label(row['temperature'])} {row['condition']:9} "
               f"acceptance {row['acceptance']}  tok/pass {row['tokens_per_pass'].mean:.2f}{more}")  # fmt: skip
    for row in pairs(found):
        yield (f"{row['target']:18} {row['task']:9} {label(row['temperature'])} "
               f"{row['one']} - {row['other']}: {row['difference']}")  # fmt: skip
    for row in retention(found):
        means = " -> ".join(f"{row[name].mean:.3f}" for name in ("untrained", "after_first", "after_all"))
        yield (f"{row['target']:18} {row['task']} first, {label(row['temperature'])} {row['loss']}: {means}, "
               f"gain kept {row['gain_kept']}")  # fmt: skip


def markdown(found: Found) -> Iterable[str]:
    """The same as Markdown tables: conditions per temperature, pairs in the paper's order, sequences."""
    made = rows(found)
    for temperature in dict.fromkeys(row["temperature"] for row in made):
        yield from _table(
            [f"{label(temperature)}", "condition", "seeds", "acceptance", "x direct", "gap closed", "tokens per pass",
             "training, processor s"],
            [[f"{r['target']}, {r['task']}", r["condition"], r["seeds"], r["acceptance"], r.get("times_direct"),
              r.get("gap_closed"), r["tokens_per_pass"], r.get("training_cpu")]
             for r in made if r["temperature"] == temperature],
        )  # fmt: skip
    yield from _table(
        ["target, task", "sampling", "pair", "difference of acceptance"],
        [[f"{r['target']}, {r['task']}", label(r["temperature"]), f"{r['one']} - {r['other']}", r["difference"]]
         for r in pairs(found)],
    )  # fmt: skip
    yield from _table(
        ["sequence", "loss", "seeds", "first task untrained", "after it", "after all", "gain kept"],
        [[f"{r['target']}, {r['task']} first", r["loss"], r["seeds"], r["untrained"], r["after_first"], r["after_all"],
          r["gain_kept"]] for r in retention(found)],
    )  # fmt: skip


def _table(head: Sequence[str], body: Sequence[Sequence[object]]) -> Iterable[str]:
    if body:
        yield from ("", f"| {' | '.join(head)} |", "|---" * len(head) + "|")
        yield from (f"| {' | '.join(map(_cell, row))} |" for row in body)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if value > 2 else f"{value:g}"
    return "" if value is None else str(value)
