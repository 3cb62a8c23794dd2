"""The runs of a drift report as one picture: a panel a schedule, a line a condition, a mark at every switch."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omnidraft.bench.drift_report import NONE, PER_TARGET, SHARED, Variant
from omnidraft.lab.export import WINDOW, moving_average
from omnidraft.lab.store import RunState

COLOURS = {NONE: "#57606a", PER_TARGET: "#0969da", SHARED: "#9a4a00"}


def png(found: Sequence[tuple[Variant, RunState]], dpi: int = 130) -> bytes:
    """The bytes of a PNG file: moving averages of acceptance, dashed without n-gram cache."""
    names = list(dict.fromkeys(variant.schedule.name for variant, _ in found))
    fig = Figure(figsize=(10, 3 * max(len(names), 1)), layout="constrained")
    FigureCanvasAgg(fig)
    panels = fig.subplots(max(len(names), 1), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        for variant, state in found:
            if variant.schedule.name == name:
                _line(axes, variant, state)
        _dress(axes, next(variant for variant, _ in found if variant.schedule.name == name))
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


def _line(axes: Axes, variant: Variant, state: RunState) -> None:
    """Broken at the switches."""
    averages, text = moving_average(state.points), variant.condition
    for segment in dict.fromkeys(point.segment for point in state.points):
        here = [(p, v) for p, v in zip(state.points, averages, strict=True) if p.segment == segment]
        both = [(p.index + 1, v) for p, v in here if v is not None]
        if both:
            style = "-" if variant.cache else "--"
            axes.plot(*zip(*both, strict=True), color=COLOURS[variant.learning], linestyle=style, label=text)
            text = "_nolegend_"


def _dress(axes: Axes, variant: Variant) -> None:
    begin = 0
    for number, segment in enumerate(variant.schedule.segments):
        if number:
            axes.axvline(begin + 0.5, color="#57606a", linewidth=1, linestyle=":")
        begin += segment.count
    title = " -> ".join(f"{s.target}, {s.task}" for s in variant.schedule.segments)
    axes.set_title(title, fontsize=9)
    axes.set_ylabel(f"acceptance,\nmean of {WINDOW}", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=7, ncols=2)
