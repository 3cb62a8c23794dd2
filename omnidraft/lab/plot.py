"""A drift run as a picture: acceptance per prompt, and speed below it, with a mark at every switch.

Draws with matplotlib's file back end, without a display and without touching its global state.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from omnidraft.lab.export import WINDOW, moving_average, pooled_passes, pooled_speedup
from omnidraft.lab.store import Point, RunState


@dataclass(frozen=True, slots=True)
class Colours:
    """Each pair of text or line and background has a contrast of at least 4.5 (3 for lines)."""

    background: str
    text: str
    grid: str
    mark: str
    acceptance: str
    speed: str


THEMES = {
    "light": Colours("#ffffff", "#1f2328", "#e3e6ea", "#57606a", "#0969da", "#9a4a00"),
    "dark": Colours("#16181d", "#e6e8eb", "#30343b", "#a3abb5", "#58a6ff", "#f0a35e"),
}


def figure(state: RunState, theme: str = "light") -> Figure:
    """Acceptance above; below speedup if it was measured, else tokens per pass."""
    colours = THEMES[theme]
    fig = Figure(figsize=(9.0, 5.6), layout="constrained", facecolor=colours.background)
    FigureCanvasAgg(fig)
    above, below = fig.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    points = state.points
    rates = [p.acceptance for p in points]
    _series(above, points, rates, moving_average(points), colours.acceptance)
    above.set_ylabel("Acceptance rate\n(accepted / proposed)")
    above.set_ylim(0, max(0.1, min(1.0, 1.15 * max((r for r in rates if r is not None), default=1.0))))
    if state.options.plain:
        _series(below, points, [p.speedup for p in points], moving_average(points, of=pooled_speedup), colours.speed)
        below.axhline(1.0, color=colours.mark, linewidth=1, linestyle=":")
        below.set_ylabel("Speedup\nover plain")
    else:
        each = [p.tokens_per_pass for p in points]
        _series(below, points, each, moving_average(points, of=pooled_passes), colours.speed)
        below.set_ylabel("Tokens per\ntarget pass")
    below.set_ylim(bottom=0)
    below.set_xlabel("Prompt")
    _marks(above, below, state, colours)
    for axes in (above, below):
        _dress(axes, colours)
    above.legend(
        loc="upper right", ncols=2, fontsize=8, labelcolor=colours.text, facecolor=colours.background,
        edgecolor=colours.grid, framealpha=0.9,
    )  # fmt: skip
    fig.suptitle(_title(state), color=colours.text, fontsize=11)
    return fig


def png(state: RunState, theme: str = "light") -> bytes:
    """The figure as the bytes of a PNG file."""
    data = io.BytesIO()
    drawn = figure(state, theme)
    drawn.savefig(data, format="png", dpi=150, facecolor=drawn.get_facecolor(), metadata={"Software": None})
    return data.getvalue()


def _series(
    axes: Axes, points: Sequence[Point], each: Sequence[float | None], average: Sequence[float | None], colour: str
) -> None:
    """Single prompts as dots, their moving average as a line broken at the switches."""
    shown = [(p.index + 1, value) for p, value in zip(points, each, strict=True) if value is not None]
    at, height = [place for place, _ in shown], [value for _, value in shown]
    axes.scatter(at, height, s=16, color=colour, alpha=0.6, linewidths=0, clip_on=False, label="one prompt")
    label: str | None = f"mean of the last {WINDOW}"
    for segment in dict.fromkeys(p.segment for p in points):
        both = zip(points, average, strict=True)
        line = [(p.index + 1, value) for p, value in both if p.segment == segment and value is not None]
        if line:
            axes.plot(*zip(*line, strict=True), color=colour, linewidth=2, label=label)
            label = None


def _marks(above: Axes, below: Axes, state: RunState, colours: Colours) -> None:
    """A line at every switch; on top of each segment its target and task."""
    begin = 0
    for number, segment in enumerate(state.schedule.segments):
        if number:
            for axes in (above, below):
                axes.axvline(begin + 0.5, color=colours.mark, linewidth=1.2, linestyle="--")
        above.annotate(
            f"{segment.target}\n{segment.task}", (begin + 0.5 + segment.count / 2, 1.0), (0, 4),
            xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="bottom", fontsize=8,
            color=colours.text,
        )  # fmt: skip
        begin += segment.count
    above.set_xlim(0.5, begin + 0.5)


def _dress(axes: Axes, colours: Colours) -> None:
    axes.set_facecolor(colours.background)
    axes.grid(axis="y", color=colours.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=colours.text, labelsize=8)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(colours.mark)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(colours.text)
        label.set_fontsize(9)


def _title(state: RunState) -> str:
    options = state.options
    length = "adaptive draft length" if options.draft_length is None else f"draft length {options.draft_length}"
    learning = f", {options.about_learning}" if options.learning else ""
    unfinished = "" if state.done == state.total else f" ({state.done} of {state.total} prompts)"
    return f"Drift {state.schedule.name}: {options.about_cache}, {length}{learning}{unfinished}"
