"""The drift lab: schedule a change of task or model, watch acceptance fall and recover. `drift_lab` has it done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import pairwise
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.format import count, counted, percent, rate
from omnidraft.lab.drift_lab import WINDOW, SegmentRow, Shown, plots, segment_rows
from ui.common import notes
from ui.common.events import Events
from ui.common.frame import SMALL, page_column
from ui.common.notes import tip
from ui.drift import form as drift_form
from ui.drift import race as drift_race
from ui.drift.form import Form
from ui.drift.race_view import duration

LITTLE = 0.05  # accepted, of the drafts: a fall from less shows nothing
EVERY = 2.0  # seconds between looks at a run


def progress(run: Shown | None) -> str:
    """One line and a bar."""
    if run is None:
        return '<p class="od-none">Say what changes and start it; the plot grows with every prompt.</p>'
    done = len(run.points)
    words = [f"{run.plan.schedule.name}: {done} of {run.total} prompts", run.status]
    if run.status == "running" and run.doing:
        words.append(run.doing)
    elif run.status == "running" and run.seconds_left:
        words.append(f"about {duration(run.seconds_left)} left")
    bad = f'<p class="od-note od-bad">{escape(run.error)}</p>' if run.error else ""
    return (
        f'<div class="od-run" data-status="{run.status}"><p>{escape(", ".join(words))}</p>'
        f'<div class="od-bar"><i style="width:{done / run.total:.1%}"></i></div></div>{bad}'
    )


def table(found: list[SegmentRow]) -> str:
    """Of parts shorter than the window nothing is said that takes one."""
    columns: dict[str, Callable[[SegmentRow], str]] = {
        "target": lambda row: escape(row.target),
        "task": lambda row: escape(row.task),
        "prompts": lambda row: count(row.prompts),
        "accepted": lambda row: percent(row.acceptance),
        f"first {WINDOW}": lambda row: percent(row.first if row.prompts >= WINDOW else None),
        f"last {WINDOW}": lambda row: percent(row.last if row.prompts >= WINDOW else None),
        "recovered after": lambda row: f"{row.recovery} prompts" if row.recovery and row.prompts >= WINDOW else "–",
        "tokens per pass": lambda row: f"{row.tokens_per_pass or 0:.2f}",
        "tokens/s": lambda row: rate(row.tokens_per_second),
        "n-grams learned": lambda row: count(row.cache_learned),
    }
    rows = (notes.cells([value(row) for value in columns.values()]) for row in found)
    return notes.table([tip(name) for name in columns], "".join(f"<tr>{row}</tr>" for row in rows))


def story(rows: list[SegmentRow], learning: bool) -> str:
    """What a run showed, in a sentence for each of its parts."""
    if not rows or rows[0].last is None:
        return ""
    if (fewest := min(row.prompts for row in rows)) < WINDOW:
        tell = "tells" if fewest == 1 else "tell"
        told = f"{counted(fewest, 'prompt')} in a part {tell} no drift from chance: give each at least {WINDOW}."
        return f'<p class="od-story">{told}</p>'
    said = [f"{_part(rows[0])}: {percent(rows[0].first)} of the drafts were accepted at first, "
            f"{percent(rows[0].last)} at the end."]  # fmt: skip
    for before, row in pairwise(rows):
        change = "the task" if before.target == row.target else "the model"
        said.append(f"Then {change} changed to {_part(row)}: {_change(before, row)}.")
    if max(row.last or 0.0 for row in rows) < LITTLE and not learning:
        said.append("The drafter knows too little of this to lose any of it; let it learn as it goes.")
    return f'<p class="od-story">{escape(" ".join(said))}</p>'


def _part(row: SegmentRow) -> str:
    return f"{row.target}, {row.task}"


def _change(before: SegmentRow, row: SegmentRow) -> str:
    """How acceptance went from one part to the next, by the figures of the table."""
    if before.acceptance is None or row.acceptance is None:
        return "nothing was drafted"
    was, now = percent(before.acceptance), percent(row.acceptance)
    if was == now:
        return f"it stayed at {now} of the drafts"
    if row.acceptance > before.acceptance:
        return f"it rose from {was} of the drafts in the part before to {now}"
    back = f", and was back after {row.recovery} prompts" if row.recovery else ""
    return f"it fell from {was} of the drafts in the part before to {now}{back}"


class Parts:
    """The page's components, made where the layout stands."""

    def __init__(self) -> None:
        self.said = gr.HTML(elem_id="od-said")
        with gr.Group(elem_classes="od-group"):
            gr.HTML(
                "<h2>Let it drift</h2><p>The task or the model changes on the way: how far acceptance falls, and how "
                f"the {tip('n-gram cache')} and learning help it back. No prompt occurs twice.</p>"
            )
            self.form = Form()
            with gr.Row(elem_classes="od-buttons"):
                self.go = gr.Button("Start", variant="primary", elem_id="od-drift-start", **SMALL)
                self.stop = gr.Button("Stop", variant="stop", elem_id="od-drift-stop", visible=False, **SMALL)
        self.progress = gr.HTML(elem_id="od-drift-progress")
        self.plot = gr.HTML(elem_id="od-drift-plot")
        self.table = gr.HTML(elem_id="od-drift-table")
        self.tick = gr.Timer(EVERY, active=False)
        self.outputs = [self.progress, self.plot, self.table, self.tick, self.stop, self.go]


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Drift lab"):
        gr.HTML(
            "<h1>Drift lab</h1><p>What drafting is worth on this machine, what learning adds to it, and what a change "
            f"of task or model does to the {tip('drafter')}.</p>",
            elem_classes="od-lead",
        )
        race = drift_race.Parts()
        parts = Parts()
    drift_race.wire(sessions, page, race)
    _wire(sessions, page, parts)


def _look(parts: Parts, session: Session) -> dict:
    run, running = session.drift.latest, session.drift.running
    points = list(run.points) if run is not None else []
    shown = {parts.plot: "", parts.table: ""}
    if run is not None and points:
        schedule = run.plan.schedule
        rows = segment_rows(schedule, points)
        drawn = "".join(plot.html() for plot in plots(schedule, points))
        told = [row for row in rows if row.prompts >= WINDOW] if running else rows
        shown = {parts.plot: story(told, run.plan.learning) + drawn, parts.table: table(rows)}
    return {
        **shown,
        parts.tick: gr.Timer(active=running),
        parts.progress: progress(run),
        parts.stop: gr.Button(visible=running),
        parts.go: gr.Button(visible=not running),
    }


def _wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    events, form, looks = Events(sessions, parts.said), parts.form, partial(_look, parts)

    def arrive(session: Session) -> dict:
        return {parts.said: "", **looks(session), **drift_form.choices(session, form)}

    def start(session: Session, *values: Any) -> str:
        session.drift.start(drift_form.plan_of(session, *values))
        return ""

    def end(session: Session) -> str:
        session.drift.stop()
        return "Stopped; what it has so far is kept."

    events.on(page.load, arrive, [*parts.outputs, form.schedule, form.count])
    events.on(parts.go.click, start, parts.outputs, form.values, after=looks)
    events.on(parts.stop.click, end, queue=False)
    events.on(parts.tick.tick, looks, parts.outputs)
