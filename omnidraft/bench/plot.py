"""Pictures of benchmarks: panels of lines with bands, and marks where something changed. Knows no benchmark."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

COLOURS = ("#0969da", "#9a4a00", "#1a7f37", "#8250df", "#bf3989", "#57606a", "#6e4c00")


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y; a y that is None breaks the line), and a band around them where `low` and `high` are given."""

    label: str
    x: Sequence[Any]
    y: Sequence[float | None]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """marks: places on x where a line is drawn from top to bottom."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    marks: Sequence[float] = field(default=())


def png(panels: Sequence[Panel], dpi: int = 130) -> bytes:
    """The bytes of a PNG file, two panels a row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes a second to load, and not everybody draws
    from matplotlib.figure import Figure

    rows = max(1, -(-len(panels) // 2))
    fig = Figure(figsize=(12, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(fig)
    places = fig.subplots(rows, 2, squeeze=False).reshape(-1)
    for axes, panel in zip(places, panels, strict=False):
        _draw(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


def _draw(axes: Any, panel: Panel) -> None:
    for line, colour in zip(panel.lines, COLOURS * len(panel.lines), strict=False):
        y = [float("nan") if value is None else value for value in line.y]
        style = "--" if line.dashed else "-"
        axes.plot(line.x, y, style, color=colour, label=line.label, marker="o", markersize=3, linewidth=1.2)
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    for mark in panel.marks:
        axes.axvline(mark, color="#57606a", linewidth=1, linestyle=":")
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x, fontsize=8)
    axes.set_ylabel(panel.y, fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#e3e6ea")
    axes.legend(fontsize=7)
