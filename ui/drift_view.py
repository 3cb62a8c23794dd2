"""A drift run as HTML: its progress, its plot as SVG in the page's own colours, its table, the list of runs.

Pure functions of a run's state. The plot for papers and slides is the PNG that `omnidraft.bench.drift_plot` draws.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape

from omnidraft.bench.drift_export import moving_average, pooled_speedup, segment_rows
from omnidraft.bench.drift_store import Point, RunState
from ui.format import count, percent, rate

WIDTH, HEIGHT, LEFT, TOP = 760, 210, 40, 22
CACHES = {"off": "no n-gram cache", "empty": "n-gram cache from empty", "seeded": "seeded n-gram cache"}


def progress(state: RunState | None, doing: str, left: float, error: str) -> str:
    """One line and a bar."""
    if state is None:
        return '<p class="od-none">Pick a schedule and start it; the plot grows with every prompt.</p>'
    words = [f"{state.schedule.name}: {state.done} of {state.total} prompts", state.status]
    if state.status == "running" and doing:
        words.append(doing)
    elif state.status == "running" and left:
        words.append(f"about {_duration(left)} left")
    bad = f'<p class="od-note od-bad">{escape(error)}</p>' if error else ""
    share = state.done / state.total
    return (
        f'<div class="od-run" data-status="{state.status}"><p>{escape(", ".join(words))}</p>'
        f'<div class="od-bar"><i style="width:{share:.1%}"></i></div></div>{bad}'
    )


def plots(state: RunState | None) -> str:
    """Acceptance, and speedup below it if it was measured."""
    if state is None or not state.points:
        return ""
    points = state.points
    shown = _plot("Acceptance per prompt", state, [p.acceptance for p in points], moving_average(points), 1.0, percent)
    if any(p.speedup for p in points):
        speeds = [p.speedup for p in points]
        top = max(2.0, *(s for s in speeds if s))
        average = moving_average(points, of=pooled_speedup)
        shown += _plot("Speedup over plain decoding per prompt", state, speeds, average, top, lambda v: f"{v:.1f}×")
    return shown


def table(state: RunState | None) -> str:
    if state is None or not state.points:
        return ""
    names = ["target", "task", "prompts", "acceptance", "before", "first", "last", "recovered after", "tokens/pass",
             "tokens/s", "speedup", "n-grams learned"]  # fmt: skip
    rows = []
    for row in segment_rows(state):
        cells = [
            escape(row.target), escape(row.task), count(row.prompts), percent(row.acceptance), percent(row.before),
            percent(row.first), percent(row.last), f"{row.recovery} prompts" if row.recovery else "–",
            f"{row.tokens_per_pass or 0:.2f}", rate(row.tokens_per_second),
            f"{row.speedup:.2f}×" if row.speedup else "–", count(row.cache_learned),
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f'<div class="od-scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def exports(state: RunState | None) -> str:
    if state is None or not state.points:
        return ""
    links = "".join(
        f'<a href="/drift/{state.id}.{kind}" download>{kind.upper()}</a>' for kind in ("csv", "json", "png")
    )
    return f'<div class="od-links">Export {links}</div>'


def runs(found: Sequence[RunState], current: str | None) -> str:
    """Earlier runs, the newest first, with what can be done with each."""
    if not found:
        return '<p class="od-none">No runs yet.</p>'
    return "".join(_run(state, state.id == current) for state in found)


def _run(state: RunState, here: bool) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(state.created))
    options = state.options
    length = "adaptive" if options.draft_length is None else f"draft length {options.draft_length}"
    about = f"{CACHES[options.cache]}, {length}, {state.done} of {state.total}, {state.status}"
    acts = [("show", "Show")] if not here else []
    if state.status not in ("finished", "running"):
        acts.append(("resume", "Resume"))
    acts.append(("delete", "Delete"))
    buttons = "".join(f'<button type="button" data-kind="{k}" data-run="{state.id}">{w}</button>' for k, w in acts)
    return (
        f'<div class="od-past"><div><b>{escape(state.schedule.name)}</b> <span>{when}; {about}</span></div>'
        f'<div class="od-card-buttons">{buttons}</div></div>'
    )


SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (button) trigger('act', {kind: button.dataset.kind, run: button.dataset.run});
});
"""


def _plot(title: str, state: RunState, each: Sequence[float | None], average: Sequence[float | None], top: float,
          word) -> str:  # fmt: skip
    def x(index: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (index + 0.5) / state.total

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - 20) * (1 - min(value, top) / top)

    grid = "".join(
        f'<line class="od-grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(v) + 3.5:.1f}" text-anchor="end">{word(v)}</text>'
        for v in (0.0, top / 2, top)
    )
    dots = "".join(f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="2.4"/>' for i, v in enumerate(each) if v is not None)
    lines = "".join(
        f'<polyline points="{" ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in part)}"/>'
        for part in _pieces(state.points, average)
    )
    return (
        f'<figure class="od-plot"><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{title}; the table below has the numbers">{grid}{_marks(state, x)}{dots}{lines}</svg></figure>'
    )


def _pieces(points: Sequence[Point], values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The line in pieces: it does not reach across a switch."""
    parts: list[list[tuple[int, float]]] = [[]]
    for point, value in zip(points, values, strict=True):
        if point.switch:
            parts.append([])
        if value is not None:
            parts[-1].append((point.index, value))
    return [part for part in parts if len(part) > 1]


def _marks(state: RunState, x) -> str:
    """A dashed line at every switch, and above every segment its target and task."""
    marks, begin = [], 0
    for number, segment in enumerate(state.schedule.segments):
        at = x(begin - 0.5)
        if number:
            marks.append(f'<line class="od-switch" x1="{at:.1f}" x2="{at:.1f}" y1="6" y2="{HEIGHT - 20}"/>')
        label = escape(f"{segment.target}, {segment.task}")
        marks.append(f'<text class="od-segment" x="{at + 5:.1f}" y="14">{label}</text>')
        begin += segment.count
    return "".join(marks)


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
