"""The tables of `bench paper` as Markdown. Reads what the run kept and knows no models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from omnidraft.bench.columns import label

Tables = Mapping[str, dict]
FEW = 8  # long answers below which a cell says little


def markdown(tables: Tables) -> Iterator[str]:
    """Every table there is, in the paper's order."""
    if "speed" in tables:
        yield from (*_gains(tables["speed"]), "")
    for name, show in _SHOWN.items():
        if name in tables:
            yield from (*show(tables[name]), "")


def _gains(table: dict) -> Iterator[str]:
    """What a user of the app gets: the adaptive length with the drafter that learned, means over the targets."""
    rows = [row for row in table["rows"] if (row["method"], row["condition"]) == ("adaptive", "projected")]
    regimes = list(dict.fromkeys(row["regime"] for row in rows))
    machines = [machine["name"] for machine in table["machines"]]
    body = []
    for task, sampling in dict.fromkeys((row["task"], row["temperature"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["temperature"]) == (task, sampling)]
        measured = [_mean([row["speedup"] for row in mine if row["regime"] == regime]) for regime in regimes]
        others = [_mean([row["projected"][name] for row in mine if row["regime"] == regimes[0]]) for name in machines]
        body.append([task, label(sampling), *measured, *others])
    head = [*(f"measured: {regime}" for regime in regimes), *(f"projected: {name}" for name in machines)]
    source = f"; projections from the rounds at {regimes[0]}" if regimes else ""
    title = f"What you gain: speedup of a drafter that learned, adaptive length{source}"
    yield from _table(title, ["task", "sampling", *head], body)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _methods(table: dict) -> Iterator[str]:
    yield from _table(
        "Methods (Table 1): acceptance at draft length 4, mean and 95% interval",
        ["target", "task", "sampling", "method", "acceptance", "tokens per pass", "answers (long, looped)"],
        [[r["target"], r["task"], label(r["temperature"]), r["condition"], _value(r["acceptance"]),
          _value(r["tokens_per_pass"]), _answers(r)] for r in table["rows"]],
    )  # fmt: skip
    if table.get("pairs"):
        yield ""
        yield from _table(
            "Differences between neighbours in the paper's order, paired",
            ["target", "task", "sampling", "pair", "difference of acceptance"],
            [[r["target"], r["task"], label(r["temperature"]), f"{r['one']} - {r['other']}", _value(r["difference"])]
             for r in table["pairs"]],
        )  # fmt: skip


def _speed(table: dict) -> Iterator[str]:
    machines = [machine["name"] for machine in table["machines"]]
    yield from _table(
        "Speedups: measured here, and projected from the same rounds (projections, not measurements)",
        ["target", "task", "regime", "sampling", "drafter", "method", "acceptance", "tokens per pass",
         "measured [95%]", *(f"projected: {name}" for name in machines), "answers (long)"],
        [[r["target"], r["task"], r["regime"], label(r["temperature"]), r["condition"], r["method"], r["acceptance"],
          r["tokens_per_pass"], f"{r['speedup']:.2f} {_pair(r['speedup_ci'])}", *(r["projected"][m] for m in machines),
          f"{r['answers']} ({r['long']})"] for r in table["rows"]],
    )  # fmt: skip
    yield ""
    for machine in table["machines"]:
        passes = ", ".join(f"C({n}) {value:.2f}" for n, value in machine["passes"].items())
        yield f"- {machine['name']}: {passes}, D {machine['step']:.3f}; {machine['source']}."


def _adapting(table: dict) -> Iterator[str]:
    yield from _table(
        "Adaptive drafting (Table 2, here across vocabularies), temperature 0; speedup projected as in the paper",
        ["target", "task", "condition", "acceptance", "tokens per pass", "drafted per pass", "projected speedup"],
        [[r["target"], r["task"], r["condition"], r["acceptance"], r["tokens_per_pass"], r["drafted_per_pass"],
          r["projected"]] for r in table["rows"]],
    )  # fmt: skip


def _sizes(table: dict) -> Iterator[str]:
    yield from _table(
        "Sizes (Table 3): the same weights at other shapes, F32, draft length 4, temperature 0",
        ["target", "drafter", "task", "acceptance", "tokens per pass", "measured [95%]", "by C(n) and D and overhead",
         "by C(n) and D alone"],
        [[r["target"], r["drafter"], r["task"], r["acceptance_rate"], r["tokens_per_pass"],
          f"{r['speedup']:.2f} {_pair(r['speedup_ci'])}", r["modelled_speedup"], r["ideal_speedup"]]
         for r in table["rows"]],
    )  # fmt: skip


def _cache(table: dict) -> Iterator[str]:
    yield from _table(
        "The n-gram cache without training (Table 5): draft length 4, temperature 0",
        ["target", "task", "cache", "acceptance", "tokens per pass"],
        [[r["target"], r["task"], r["cache"], r["acceptance_rate"], r["tokens_per_pass"]] for r in table["rows"]],
    )  # fmt: skip


def _losses(table: dict) -> Iterator[str]:
    yield from _table(
        "Losses (Table 6): draft length 4",
        ["target", "task", "sampling", "loss", "acceptance", "tokens per pass", "training, processor s"],
        [[r["target"], r["task"], label(r["temperature"]), r["condition"], _value(r["acceptance"]),
          _value(r["tokens_per_pass"]), r.get("training_cpu")] for r in table["rows"]],
    )  # fmt: skip


def _ranks(table: dict) -> Iterator[str]:
    yield from _table(
        "Rank of the adapter (Table 12); the last one is as wide as the drafter, its matrices of full rank",
        ["rank", "sampling", "acceptance", "tokens per pass", "share of the last one's gain"],
        [[r["rank"], r["sampling"], _value(r["acceptance"]), _value(r["tokens_per_pass"]), _value(r["share"])]
         for r in table["rows"]],
    )  # fmt: skip


def _eviction(table: dict) -> Iterator[str]:
    yield from _table(
        "Eviction (Table 14): caches that began empty and saw the same answers, draft length 4, temperature 0",
        ["drafter", "cache", "n-grams", "acceptance", "tokens per pass", "of the full cache's tokens per pass"],
        [[r["drafter"], r["cache"], r["entries"], _value(r["acceptance"]), _value(r["tokens_per_pass"]),
          _value(r["of_full"])] for r in table["rows"]],
    )  # fmt: skip


def _growth(table: dict) -> Iterator[str]:
    yield from _table(
        "Growth of the cache from empty, and its memory",
        ["answers", "tokens", "n-grams", "kB"],
        [[r["answers"], r["tokens"], r["entries"], f"{r['bytes'] / 1e3:.0f}"] for r in table["rows"]],
    )


_SHOWN = {
    "methods": _methods, "speed": _speed, "adapting": _adapting, "sizes": _sizes, "cache": _cache, "losses": _losses,
    "ranks": _ranks, "eviction": _eviction, "growth": _growth,
}  # fmt: skip


def _table(title: str, head: Sequence[str], body: Sequence[Sequence[Any]]) -> Iterable[str]:
    yield from (f"### {title}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|")
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in body)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"
    return "" if value is None else str(value)


def _value(found: Mapping[str, float | None]) -> str:
    if found["mean"] is None:
        return ""
    low, high = found["low"], found["high"]
    around = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
    return f"{found['mean']:.3f}{around}"


def _pair(values: Sequence[float]) -> str:
    return f"[{values[0]:.2f}, {values[1]:.2f}]"


def _answers(row: Mapping[str, Any]) -> str:
    few = ", too few" if row["long"] < FEW else ""
    return f"{row['answers']} ({row['long']}, {row['looped']}{few})"
