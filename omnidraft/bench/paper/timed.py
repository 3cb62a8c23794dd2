"""The tables that are timed: speedups by method beside projections from the same rounds, and sizes of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from omnidraft.app.assistant import Assistant
from omnidraft.backends.base import LanguageModel
from omnidraft.bench import learn_speed, regimes, speed
from omnidraft.bench.learn import Told
from omnidraft.bench.opened import engine_of
from omnidraft.bench.paper.machines import DESKTOP, GPU, PAPER, Machine, measured, projected
from omnidraft.bench.paper.plan import Plan
from omnidraft.settings.config import CacheSettings, ModelSettings
from omnidraft.storage.paths import DataHome

WIDTHS = (1, 2, 3, 4, 5, 6, 8)  # rows of a pass
TEXT, REPEATS = 64, 7


def speedups(plan: Plan, cells: Path, home: DataHome, told: Told) -> dict:
    """Each method's speedup as measured, and projected for other machines; one seed."""
    machines = [PAPER, _own(plan, home, told), DESKTOP, GPU]
    learned = replace(
        plan.learned, targets=plan.learned.targets[: plan.timed_targets], seeds=1, test_tokens=plan.timed_tokens
    )
    rows = []
    for regime in plan.timed:
        conditions = ["direct", "cache", *plan.learned.losses]
        for row in learn_speed.run(learned, cells, home, regime, conditions, plan.timed_prompts):
            told(learn_speed.line(row))
            others = {m.name: projected(m, row.tokens, row.drafted, row.widths) for m in machines}
            rows.append(asdict(row) | {"projected": others})
    return {"rows": rows, "machines": [about(machine) for machine in machines]}


def _own(plan: Plan, home: DataHome, told: Told) -> Machine:
    told(f"costs of {plan.quantized}")
    learned, assistant = plan.learned, Assistant(home, ephemeral=True)
    try:
        files = regimes.models(home, plan.quantized, learned.targets[0], learned.drafter)
        assistant.load(*files, ModelSettings(threads=learned.threads), CacheSettings(enabled=False))
        engine = engine_of(assistant)
        return measured(_passes(engine.target.model), engine.measured().step, plan.quantized)
    finally:
        assistant.close()


def _passes(target: LanguageModel) -> dict[int, float]:
    """C(n) in seconds behind a short text: the cost model takes a prior where measuring would keep somebody waiting."""
    ids = np.flatnonzero(target.vocabulary.ordinary)[: TEXT + max(WIDTHS)].tolist()
    times: dict[int, list[float]] = {n: [] for n in WIDTHS}
    target.extend(ids[:TEXT], 0)
    for turn in range(REPEATS + 1):
        for n in WIDTHS:
            begun = perf_counter()
            target.extend(ids[TEXT : TEXT + n], n)
            if turn:  # the first ones page in
                times[n].append(perf_counter() - begun)
            target.rewind(TEXT)
    return {n: median(found) for n, found in times.items()}


def about(machine: Machine) -> dict:
    return {"name": machine.name, "source": machine.source, "step": machine.step,
            "passes": {n: round(machine.cost(n), 3) for n in (1, 2, 3, 4, 5, 8)}}  # fmt: skip


def sizes(plan: Plan, home: DataHome, told: Told) -> dict[str, list[dict]]:
    """The same weights at larger shapes: acceptance must stay, speed goes by what a pass and a draft step cost."""
    side, rows = plan.side(), []
    for shape in plan.shapes:
        for drafter_shape in plan.drafter_shapes:
            told(f"sizes: target {shape}, drafter {drafter_shape}")
            asked = speed.Plan(
                [str(task) for task in side.tasks], ["plain", "fixed:4"], [0.0], [_regime(shape)],
                prompts=plan.timed_prompts, max_tokens=plan.timed_tokens, model=ModelSettings(threads=side.threads),
                drafter_shape=drafter_shape,
            )  # fmt: skip
            cells = [c for c in speed.run(home, asked, side.targets, side.drafter) if c.method != "plain"]
            rows += [_sized(cell, shape, drafter_shape) for cell in cells]
    return {"rows": rows}


def _regime(shape: str) -> str:
    return shape if shape == "bundled" else f"{shape}-F32"


def _sized(cell: speed.Cell, shape: str, drafter_shape: str) -> dict:
    kept: Sequence[str] = ("task", "acceptance_rate", "tokens_per_pass", "speedup", "speedup_ci", "modelled_speedup",
                           "ideal_speedup", "degenerate")  # fmt: skip
    return {"target": shape, "drafter": drafter_shape} | {name: getattr(cell, name) for name in kept}
