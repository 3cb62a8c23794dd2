"""Drift runs as tables: what happened per segment, and CSV and JSON of every prompt. Knows nothing of models."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from omnidraft.format import share
from omnidraft.lab.statistics import interval
from omnidraft.lab.store import Point, RunState
from omnidraft.plot import Frame, Mark, Plot, Series, ceiling
from omnidraft.plot import picture as picture_of

WINDOW = 8  # prompts a moving average covers: two turns of the four tasks
RECOVERED = 0.95
Pooled = Callable[[Sequence[Point]], float | None]


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """Sums over one segment.

    acceptance: pooled, accepted / proposed over all its prompts; first and last: over its first and last WINDOW
    prompts; before: over the last WINDOW prompts ahead of it (None for the first segment). recovery: how many prompts
    after its beginning the moving average first reached 95% of `before`, None if it never did. speedup: tokens/s over
    plain tokens/s of the same prompts, by total decode time; interval: its 95%, over prompts, None where they are too
    few.
    """

    segment: int
    target: str
    task: str
    prompts: int
    acceptance: float | None
    before: float | None
    first: float | None
    last: float | None
    recovery: int | None
    tokens_per_pass: float | None
    tokens_per_second: float | None
    speedup: float | None
    interval: tuple[float, float] | None
    cache_entries: int
    cache_learned: int
    degenerate: int


def segment_rows(state: RunState) -> list[SegmentRow]:
    """A row for every segment that was begun."""
    segments = enumerate(state.schedule.segments)
    return [_row(state, number, one.task) for number, one in segments if any(p.segment == number for p in state.points)]


def moving_average(points: Sequence[Point], of: Pooled) -> list[float | None]:
    """What `of` says of the last WINDOW prompts at each point; windows never reach across a switch."""
    found, begin = [], 0
    for i, point in enumerate(points):
        if point.switch:
            begin = i
        found.append(of(points[max(begin, i + 1 - WINDOW) : i + 1]))
    return found


def pooled_acceptance(points: Sequence[Point]) -> float | None:
    """accepted / proposed over all of them: long answers count more than short ones."""
    proposed = sum(p.proposed for p in points)
    return sum(p.accepted for p in points) / proposed if proposed else None


def pooled_passes(points: Sequence[Point]) -> float | None:
    """Tokens per target pass over all of them."""
    passes = sum(p.passes for p in points)
    return sum(p.tokens for p in points) / passes if passes else None


def pooled_speedup(points: Sequence[Point]) -> float | None:
    """Plain decode time per token over drafted decode time per token, summed over the prompts that have both."""
    plain, drafted = _timed(points)
    return sum(seconds for seconds, _ in plain) / sum(seconds for seconds, _ in drafted) if plain else None


def _timed(points: Sequence[Point]) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    """(seconds, tokens) of every prompt that was answered both ways, plainly and drafted."""
    both = [(p, p.plain_tokens_per_second) for p in points if p.speedup and p.plain_tokens_per_second]
    plain = [(p.tokens / speed, p.tokens) for p, speed in both]
    return plain, [(p.tokens / p.tokens_per_second, p.tokens) for p, _ in both]


def to_csv(state: RunState) -> str:
    """One line per prompt under the names of `Point`'s fields."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(Point)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(point) for point in state.points)
    return text.getvalue()


def to_json(state: RunState) -> dict[str, Any]:
    """The whole run: schedule, options, points, and the table per segment."""
    return {**state.as_dict(), "segments": [asdict(row) for row in segment_rows(state)]}


def _row(state: RunState, number: int, task: str) -> SegmentRow:
    points = [p for p in state.points if p.segment == number]
    before = pooled_acceptance([p for p in state.points if p.segment < number][-WINDOW:])
    tokens = sum(p.tokens for p in points)
    decode = sum(p.tokens / p.tokens_per_second for p in points if p.tokens_per_second)
    return SegmentRow(
        number, points[0].target, task, len(points),
        acceptance=pooled_acceptance(points),
        before=before,
        first=pooled_acceptance(points[:WINDOW]),
        last=pooled_acceptance(points[-WINDOW:]),
        recovery=_recovery(moving_average(points, pooled_acceptance), before),
        tokens_per_pass=pooled_passes(points),
        tokens_per_second=tokens / decode if decode else None,
        speedup=pooled_speedup(points),
        interval=interval(*_timed(points)),
        cache_entries=points[-1].cache_entries,
        cache_learned=points[-1].cache_learned,
        degenerate=sum(p.degenerate for p in points),
    )  # fmt: skip


def _recovery(averages: Sequence[float | None], before: float | None) -> int | None:
    """Counted once the window is full (or the segment over): a single good prompt is no recovery."""
    if before is None:
        return None
    full = min(WINDOW, len(averages))
    for number, value in enumerate(averages, 1):
        if number >= full and value is not None and value >= RECOVERED * before:
            return number
    return None


# A drift run as plots: acceptance per prompt, and speed below it, with a mark at every switch. A measure is a title,
# what it says of some prompts, pooled, and a value in words.


Measure = tuple[str, Pooled, Callable[[float], str]]
_ACCEPTANCE: Measure = ("Acceptance per prompt: accepted of what was proposed", pooled_acceptance, share)
_SPEED: Measure = ("Speedup over plain decoding, per prompt", pooled_speedup, "{:.1f}×".format)
_PASSES: Measure = ("Tokens per pass of the model, per prompt", pooled_passes, "{:.1f}".format)


def plots(state: RunState, beside: RunState | None = None) -> list[Plot]:
    """Acceptance, and speedup if it was measured, else tokens per pass. beside: a run to compare with."""
    second = _SPEED if any(p.speedup for p in state.points) else _PASSES
    drawn = (_plot(*measure, state, beside) for measure in (_ACCEPTANCE, second))
    return [plot for plot in drawn if plot is not None]


def picture(state: RunState, theme: str = "light") -> str:
    """Both plots as an SVG file."""
    unfinished = "" if state.done == state.total else f" ({state.done} of {state.total} prompts)"
    return picture_of(f"Drift {state.schedule.name}: {state.options.about}{unfinished}", plots(state), theme)


def _plot(
    title: str, pooled: Pooled, word: Callable[[float], str], state: RunState, beside: RunState | None
) -> Plot | None:
    dots = [(float(p.index), v) for p in state.points if (v := pooled([p])) is not None]
    if not dots:
        return None
    total = max(state.total, beside.total if beside else 0)
    lines, other = _lines(state.points, pooled), _lines(beside.points, pooled) if beside else []
    highest = max(v for part in ([dots], lines, other) for points in part for _, v in points)
    frame = Frame((-0.5, total - 0.5), (0.0, ceiling(highest)), word)
    series = [Series(dots, "dots", name="one prompt")]
    series += [Series(part, colour="od-c2", name="compared with" if not i else "") for i, part in enumerate(other)]
    series += [Series(part, name=f"mean of the last {WINDOW}" if not i else "") for i, part in enumerate(lines)]
    step = max(1, total // 8)
    ticks = [(float(i), str(i + 1)) for i in range(step - 1, total, step)] if total > 1 else []
    return Plot(title, frame, series, _marks(state), ticks, f"{title}; the table below has the numbers")


def _marks(state: RunState) -> list[Mark]:
    """A dashed line at every switch, and above every segment its target and task."""
    marks, begin = [], 0
    for number, segment in enumerate(state.schedule.segments):
        marks.append(Mark(begin - 0.5, f"{segment.target}, {segment.task}", line=number > 0))
        begin += segment.count
    return marks


def _lines(points: Sequence[Point], pooled: Pooled) -> list[list[tuple[int, float]]]:
    """The moving average as lines that do not reach across a switch."""
    parts: list[list[tuple[int, float]]] = [[]]
    for point, value in zip(points, moving_average(points, pooled), strict=True):
        if point.switch:
            parts.append([])
        if value is not None:
            parts[-1].append((point.index, value))
    return [part for part in parts if len(part) > 1]
