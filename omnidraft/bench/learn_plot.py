"""Learning curves as a picture: acceptance on the test prompts against the answers learned from, one panel per pair."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omnidraft.bench.columns import column_of, label
from omnidraft.bench.learn import CACHE, DIRECT, OFFLINE, SEQUENCE
from omnidraft.bench.learn_report import Found, grouped

COLOURS = ("#0969da", "#9a4a00", "#1a7f37", "#8250df", "#bf3989", "#57606a", "#6e4c00")


def png(found: Found, losses: list[str], dpi: int = 150) -> bytes:
    """Bytes of a PNG: mean over seeds with the seeds as a band; untrained and offline as dotted and dashed lines."""
    groups = grouped([(c, n, r) for c, n, r in found if c.task != SEQUENCE])
    coldest = min((temperature for _, _, temperature in groups), default="0")
    panels = sorted({(target, task) for target, task, _ in groups})
    targets, tasks = sorted({p[0] for p in panels}), list(dict.fromkeys(p[1] for p in panels))
    size = (3.2 * max(len(tasks), 1), 2.6 * max(len(targets), 1) + 0.5)
    fig = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(fig)
    grid = fig.subplots(max(len(targets), 1), max(len(tasks), 1), squeeze=False, sharex=True)
    for target, task in panels:
        axes = grid[targets.index(target)][tasks.index(task)]
        for loss, colour in zip(losses, COLOURS, strict=False):
            _curve(axes, found, target, task, loss, coldest, colour)
        group = groups[target, task, coldest]
        for name, style in ((DIRECT, ":"), (CACHE, "-."), (OFFLINE, "--")):
            if name in group:
                level = _rate(np.concatenate([*group[name].values()]))
                axes.axhline(level, color="#57606a", linestyle=style, linewidth=1, label=name)
        axes.set_title(f"{target}, {task}", fontsize=9)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8)
        axes.grid(axis="y", color="#e3e6ea")
    for axes in grid[-1]:
        axes.set_xlabel("answers learned from", fontsize=8)
    grid[0][0].set_ylabel(f"acceptance on test prompts, {label(column_of(coldest))}", fontsize=8)
    if panels:
        grid[0][0].legend(fontsize=7)
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


def curve(found: Found, target: str, task: str, loss: str, temperature: str) -> dict[int, list[float]]:
    """{answers: acceptance of each seed}, from the untrained drafter with the cache to the end of the stream."""
    points: dict[int, list[float]] = {}
    for cell, condition, result in found:
        if (cell.target, cell.task) != (target, task):
            continue
        if condition == CACHE:
            points.setdefault(0, []).append(_rate(result["counts"][temperature][task]))
        elif condition == loss:
            for update in result["updates"]:
                counts = update.get("counts", {}).get(temperature)
                if counts:
                    points.setdefault(update["answers"], []).append(_rate(counts[task]))
            points.setdefault(result["updates"][-1]["answers"], []).append(_rate(result["counts"][temperature][task]))
    return dict(sorted(points.items()))


def _curve(axes, found: Found, target: str, task: str, loss: str, temperature: str, colour: str) -> None:
    points = curve(found, target, task, loss, temperature)
    if len(points) > 1:
        axes.plot([*points], [np.mean(v) for v in points.values()], color=colour, marker="o", markersize=3, label=loss)
        lowest, highest = [min(v) for v in points.values()], [max(v) for v in points.values()]
        axes.fill_between([*points], lowest, highest, color=colour, alpha=0.15, linewidth=0)


def _rate(counts) -> float:
    sums = np.asarray(counts, float).sum(0)
    return float(sums[1] / max(sums[0], 1))
