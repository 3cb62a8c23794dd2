"""`bench speed`: methods against plain decoding, in turns, prompt by prompt in one run.

Every method answers the same distinct prompts with the same seeds on the same loaded models. Speed is compared within
the run only. A cell is one target with one kind of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from omnidraft.app.models_list import choose_target, need_drafter
from omnidraft.bench.plans import Speed, Work, decides
from omnidraft.lab import statistics as stats
from omnidraft.lab.experiment import PLAIN, Column, Pair, answers, columns, draft_settings, label, name_of, same_ids
from omnidraft.lab.prompts import Prompt, digest_of, load_prompts
from omnidraft.lab.results import Columns, Report, Table
from omnidraft.lab.statistics import Trace
from omnidraft.settings.config import ModelSettings

WARM_UP = 2  # prompts of other tasks, answered first
_SHORT = 0.98  # a method whose interval ends below this is slower than plain decoding
_LATER = ("target", "temperature")  # a run may go on with more of these


def run(plan: Speed, work: Work) -> Iterator[Report]:
    """All cells so far, in the order target, temperature, task, method."""
    rows, costs = list[dict](), list[str]()
    for cell in results(plan, work):
        rows += cell["rows"]
        costs.append(cell["costs"])
        table = Table.of("Speed over plain decoding of the same prompts [95%]", rows, COLUMNS)
        yield Report(rows, [table], [*costs, *summary(rows)])


def results(plan: Speed, work: Work) -> Iterator[dict[str, Any]]:
    """rows of a cell, and what passes and draft steps cost in it."""
    ways = list(dict.fromkeys([PLAIN, *plan.methods]))
    for way in ways:
        draft_settings(way)
    prompts = {task: load_prompts(task, split="test", limit=plan.prompts) for task in plan.tasks}
    for name, column in product(plan.target or (None,), columns(plan.temperature)):
        target = choose_target(name, work.home)
        drafter = need_drafter(plan.drafter, work.home, target)
        depends = decides(plan, _LATER, target, drafter, prompts={t: digest_of(p) for t, p in prompts.items()})
        make = partial(_cell, plan, work, ways, (target, drafter), column, prompts)
        yield work.cells.get(f"{target.stem}-{name_of(column)}", depends, make)


def _cell(
    plan: Speed, work: Work, ways: Sequence[str], models: tuple[Path, Path], column: Column,
    prompts: dict[str, list[Prompt]],
) -> dict[str, Any]:  # fmt: skip
    """Every prompt once with every way."""
    target, found = models[0].stem, {}
    settings = ModelSettings(threads=plan.threads, workers=plan.workers, split=plan.split)
    with Pair(work.home, *models, settings) as pair:
        ask = partial(answers, pair.answer, ways)
        warm_up = [load_prompts(task, split="train", limit=1)[0] for task in plan.tasks[:WARM_UP]]
        ask(warm_up, column, plan.seed, plan.max_tokens)
        for task, asked in prompts.items():
            work.told(f"{target} {label(column)}: {task}")
            found[task] = ask(asked, column, plan.seed, plan.max_tokens)
        pace = pair.found
    times = {n: seconds / pace.plain_seconds for n, seconds in pace.passes.figures.items() if n > 1}
    passes = "  ".join(f"C({n}) {took:.2f}" for n, took in times.items())
    about = f"{target}: C(1) {1e3 * pace.plain_seconds:.2f} ms, {passes}, D {1e3 * pace.step:.2f} ms"
    names = {"target": target, "temperature": column}
    return {"costs": about, "rows": [
        {**names, "task": Path(task).stem, "method": way, **measured(by_way[PLAIN], by_way[way])}
        for task, by_way in found.items() for way in ways
    ]}  # fmt: skip


def measured(plain: Sequence[Trace], found: Sequence[Trace]) -> dict[str, Any]:
    """A method's figures on some prompts. speedup, end_to_end_speedup: of summed times per token against plain, the
    latter with the reading of the prompt; acceptance_rate: None where nothing was proposed; long: answers of at least
    32 tokens; degenerate: answers that were cut where they begin to loop; same: those that are plain decoding's."""
    speedup = stats.speedup(plain, found)
    whole = stats.ratio(*([(t.statistics.prefill + t.decode, t.tokens) for t in one] for one in (plain, found)))
    return {
        "tokens": sum(t.tokens for t in found),
        "acceptance_rate": stats.acceptance(found),
        "tokens_per_pass": stats.per_pass(found),
        "tokens_per_second": stats.per_second(found),
        "speedup": speedup.mean, "speedup_ci": (speedup.low, speedup.high),
        "speedup_median": stats.median(stats.each(plain, found)).mean,
        "end_to_end_speedup": whole.mean, "end_to_end_ci": (whole.low, whole.high),
        "answers": len(found), "same": same_ids(plain, found),
        "long": sum(t.tokens >= 32 for t in found),
        "degenerate": sum(t.degenerate for t in found),
    }  # fmt: skip


COLUMNS: Columns = {
    "target": "target",
    "sampling": lambda row: label(row["temperature"]),
    "task": "task",
    "method": "method",
    "accepted": "acceptance_rate",
    "tokens/pass": "tokens_per_pass",
    "tokens/s": "tokens_per_second",
    "speedup": lambda row: stats.Value(row["speedup"], *row["speedup_ci"]),
    "end to end": lambda row: stats.Value(row["end_to_end_speedup"], *row["end_to_end_ci"]),
    "answers (long, looped)": lambda row: f"{row['answers']} ({row['long']}, {row['degenerate']})",
}


def summary(rows: Sequence[dict]) -> Iterator[str]:
    """Over all cells of each method: the geometric mean and the worst figures."""
    for method in dict.fromkeys(row["method"] for row in rows if row["method"] != "plain"):
        mine = [row for row in rows if row["method"] == method]
        mean, whole = (geometric_mean(row[name] for row in mine) for name in ("speedup", "end_to_end_speedup"))
        yield (
            f"{method}: {len(mine)} cells, geometric mean x{mean:.3f} (end-to-end x{whole:.3f}), lowest median "
            f"x{min(row['speedup_median'] for row in mine):.2f}, intervals below {_SHORT}: "
            f"{sum(row['speedup_ci'][1] < _SHORT for row in mine)}"
        )
