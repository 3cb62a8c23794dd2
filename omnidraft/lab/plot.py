"""A drift run as plots: acceptance per prompt, and speed below it, with a mark at every switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnidraft.format import share
from omnidraft.lab.export import WINDOW, moving_average, pooled_acceptance, pooled_passes, pooled_speedup
from omnidraft.lab.store import Point, RunState
from omnidraft.plot import Frame, Mark, Plot, Series, ceiling
from omnidraft.plot import picture as picture_of


@dataclass(frozen=True, slots=True)
class Measure:
    """What a plot shows: of one prompt, pooled over several, and a value in words."""

    title: str
    each: Callable[[Point], float | None]
    pooled: Callable[[Sequence[Point]], float | None]
    word: Callable[[float], str]


_ACCEPTANCE = Measure(
    "Acceptance per prompt: accepted of what was proposed", lambda p: p.acceptance, pooled_acceptance, share
)
_SPEED = Measure("Speedup over plain decoding, per prompt", lambda p: p.speedup, pooled_speedup, "{:.1f}×".format)
_PASSES = Measure(
    "Tokens per pass of the model, per prompt", lambda p: p.tokens_per_pass, pooled_passes, "{:.1f}".format
)


def plots(state: RunState, beside: RunState | None = None) -> list[Plot]:
    """Acceptance, and speedup if it was measured, else tokens per pass. beside: a run to compare with."""
    second = _SPEED if any(p.speedup for p in state.points) else _PASSES
    drawn = (_plot(measure, state, beside) for measure in (_ACCEPTANCE, second))
    return [plot for plot in drawn if plot is not None]


def picture(state: RunState, theme: str = "light") -> str:
    """Both plots as an SVG file."""
    options = state.options
    length = "adaptive draft length" if options.draft_length is None else f"draft length {options.draft_length}"
    unfinished = "" if state.done == state.total else f" ({state.done} of {state.total} prompts)"
    about = f"{options.about_cache}, {length}, {options.about_learning}{unfinished}"
    return picture_of(f"Drift {state.schedule.name}: {about}", plots(state), theme)


def _plot(measure: Measure, state: RunState, beside: RunState | None) -> Plot | None:
    dots = [(float(p.index), v) for p in state.points if (v := measure.each(p)) is not None]
    if not dots:
        return None
    total = max(state.total, beside.total if beside else 0)
    lines = _pieces(state.points, moving_average(state.points, measure.pooled))
    other = _pieces(beside.points, moving_average(beside.points, measure.pooled)) if beside else []
    highest = max(v for part in ([dots], lines, other) for points in part for _, v in points)
    frame = Frame((-0.5, total - 0.5), (0.0, ceiling(highest)), measure.word)
    series = [Series(dots, "dots", name="one prompt")]
    series += [Series(part, colour="od-c2", name="compared with" if not i else "") for i, part in enumerate(other)]
    series += [Series(part, name=f"mean of the last {WINDOW}" if not i else "") for i, part in enumerate(lines)]
    step = max(1, total // 8)
    ticks = [(float(i), str(i + 1)) for i in range(step - 1, total, step)] if total > 1 else []
    return Plot(measure.title, frame, series, _marks(state), ticks, f"{measure.title}; the table below has the numbers")


def _marks(state: RunState) -> list[Mark]:
    """A dashed line at every switch, and above every segment its target and task."""
    marks, begin = [], 0
    for number, segment in enumerate(state.schedule.segments):
        marks.append(Mark(begin - 0.5, f"{segment.target}, {segment.task}", line=number > 0))
        begin += segment.count
    return marks


def _pieces(points: Sequence[Point], values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The line in pieces: it does not reach across a switch."""
    parts: list[list[tuple[int, float]]] = [[]]
    for point, value in zip(points, values, strict=True):
        if point.switch:
            parts.append([])
        if value is not None:
            parts[-1].append((point.index, value))
    return [part for part in parts if len(part) > 1]
