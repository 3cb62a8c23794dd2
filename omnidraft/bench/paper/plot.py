"""Four pictures of `bench paper`: methods, measured beside projected, eviction, growth. A missing table stays empty."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omnidraft.bench.columns import label

COLOURS = ("#57606a", "#0969da", "#9a4a00", "#1a7f37", "#8250df", "#bf3989", "#6e4c00")


def png(tables: Mapping[str, dict], dpi: int = 130) -> bytes:
    """The bytes of a PNG file."""
    fig = Figure(figsize=(12, 8), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots(2, 2).reshape(-1)
    drawn = {"methods": _methods, "speed": _speed, "eviction": _eviction, "growth": _growth}
    for place, (name, draw) in zip(axes, drawn.items(), strict=True):
        if tables.get(name, {}).get("rows"):
            draw(place, tables[name]["rows"])
        else:
            place.set_axis_off()
        place.tick_params(labelsize=8)
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


def _methods(axes: Axes, rows: list[dict]) -> None:
    """Acceptance by target and task, a bar a method, at the first kind of sampling."""
    column = rows[0]["temperature"]
    mine = [row for row in rows if row["temperature"] == column]
    places = list(dict.fromkeys((row["target"], row["task"]) for row in mine))
    names = list(dict.fromkeys(row["condition"] for row in mine))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        bars = [row for row in mine if row["condition"] == name]
        places_of = np.array([places.index((row["target"], row["task"])) for row in bars])
        at = places_of + (i - (len(names) - 1) / 2) * width
        means = np.array([row["acceptance"]["mean"] for row in bars])
        low, high = (np.array([row["acceptance"][side] for row in bars]) for side in ("low", "high"))
        around = np.maximum([means - low, high - means], 0)
        colour = COLOURS[i % len(COLOURS)]
        axes.bar(at, means, width, yerr=around, color=colour, label=name, error_kw={"linewidth": 0.8})
    axes.set_xticks(range(len(places)), [f"{target.removesuffix('-f16')}\n{task}" for target, task in places])
    axes.set_ylabel(f"acceptance, {label(column)}")
    axes.legend(fontsize=7)


def _speed(axes: Axes, rows: list[dict]) -> None:
    """Projected by the paper's assumptions against measured, a colour a regime."""
    first = next(iter(rows[0]["projected"]))
    for i, regime in enumerate(dict.fromkeys(row["regime"] for row in rows)):
        mine = [row for row in rows if row["regime"] == regime]
        measured, projected = [row["speedup"] for row in mine], [row["projected"][first] for row in mine]
        axes.scatter(measured, projected, s=18, color=COLOURS[i + 1], label=regime)
    most = max(max(row["speedup"], row["projected"][first]) for row in rows) * 1.05
    axes.plot([0, most], [0, most], color=COLOURS[0], linewidth=1, linestyle=":")
    axes.set_xlabel("measured speedup")
    axes.set_ylabel(f"projected: {first}")
    axes.legend(fontsize=7)


def _eviction(axes: Axes, rows: list[dict]) -> None:
    """Tokens a pass by cache, with the taught drafter."""
    taught = [row for row in rows if row["drafter"] == "taught"]
    means = [row["tokens_per_pass"]["mean"] for row in taught]
    axes.barh([row["cache"] for row in taught], means, color=COLOURS[1])
    axes.set_xlim(min(1.0, *means))
    axes.set_xlabel("tokens per pass")


def _growth(axes: Axes, rows: list[dict]) -> None:
    """n-grams by answers."""
    axes.plot([row["answers"] for row in rows], [row["entries"] for row in rows], marker="o", color=COLOURS[1])
    axes.set_xlabel("answers")
    axes.set_ylabel("n-grams in the cache")
    axes.set_ylim(bottom=0)
