"""The drift lab: schedule a change of task or model, watch acceptance fall and recover. `drift_lab` has it done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from itertools import pairwise
from typing import Any

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.models_list import choose_target, is_toy
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import ModelError, SettingsError
from omnidraft.format import count, counted, percent, rate
from omnidraft.lab.drift import BUNDLED, MIXED, Plan, Schedule, Segment
from omnidraft.lab.drift_lab import WINDOW, SegmentRow, Shown, plots, segment_rows
from omnidraft.storage.files import real
from ui.common import notes
from ui.common.events import Events
from ui.common.frame import SMALL, page_column
from ui.common.notes import tip
from ui.drift import race as drift_race
from ui.drift.race_view import duration

TOYS = {
    "step": "Quick, with toys: another task, math, then code",
    "a-a2-a": "Quick, with toys: another model of the family, a, a2, a",
    "a-b-a": "Quick, with toys: a model of another family, a, b, a",
}
_FEW, _MANY = 20, 60  # prompts a part where a real model, or a toy, answers them
_OTHERS = 8  # models that may take another one's place
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


class Form:
    """The form's components, made where the layout stands. values: what a start needs, in the order of `plan_of`."""

    def __init__(self) -> None:
        names = [(text, name) for name, text in TOYS.items()]
        with gr.Row(elem_classes="od-form"):
            self.schedule = gr.Dropdown(
                names, value="step", label="What changes", filterable=False, elem_id="od-schedule"
            )
            self.count = gr.Textbox(str(_MANY), label="Prompts per part", max_lines=1, elem_id="od-count")
        self.learning = gr.Checkbox(
            value=True,
            label="Let the drafter learn as it goes",
            elem_id="od-drift-learning",
            info="It trains after every few answers, on adapters of this run alone. Takes longer.",
        )
        self.values = [self.schedule, self.count, self.learning]


def choices(session: Session, form: Form) -> dict:
    """The schedules to choose from: those of real models first."""
    known = schedules(session)
    names = [(text, name) for name, (text, _) in known.items()]
    return {
        form.schedule: gr.Dropdown(choices=names, value=names[0][1]),
        form.count: str(_FEW if len(known) > len(TOYS) else _MANY),
    }


def schedules(session: Session) -> dict[str, tuple[str, Schedule]]:
    """What is offered, by name, with what it changes in words: a switch from the model in use to each other one that
    somebody brought, the smallest first, another task for it, and the toys; by the names of their files, as those of
    two formats are alike."""
    toys = {name: (text, BUNDLED[name]) for name, text in TOYS.items()}
    models = [m for m in models_list.targets(session.assistant) if m.chat_template and not is_toy(m.path)]
    using = session.target_or_none()
    models.sort(key=lambda m: (using is None or real(m.path) != real(using), m.file_size))
    if not models:
        return toys
    first, *rest = models
    one = first.path.stem
    others = [m for m in rest if m.name != first.name or m.vocabulary_size != first.vocabulary_size]
    others.sort(key=lambda m: m.vocabulary_size == first.vocabulary_size)  # of another family first
    known = {}
    for other in dict.fromkeys(m.path.stem for m in others[:_OTHERS]):
        switch = Schedule(f"{one} to {other} and back", tuple(Segment(name, MIXED, _FEW) for name in (one, other, one)))
        known[switch.name] = (f"Another model: {one}, {other}, {one}", switch)
    tasks = Schedule("another task", (Segment(one, "math", _FEW), Segment(one, "code", _FEW)))
    return {**known, tasks.name: (f"Another task, math, then code: {one}", tasks), **toys}


def plan_of(session: Session, name: str, count: str, learning: bool) -> Plan:
    """What the form describes; SettingsError or ModelError says what is wrong."""
    known = schedules(session).get(name)
    if known is None:
        raise SettingsError("These models are not there any more; reload the page.")
    if not (count or "").strip().isdecimal():
        raise SettingsError(f"Prompts per part must be a whole number, not '{(count or '')[:40]}'.")
    schedule = known[1].changed(count=int(count))
    targets = {one: choose_target(one, session.assistant.home, session.settings) for one in schedule.targets}
    drafter = session.drafter_path(next(iter(targets.values())))
    if drafter is None:
        raise ModelError("There is no drafter; choose one on the Models page.")
    paths = {one: str(path) for one, path in targets.items()}
    return Plan(schedule, paths, str(drafter), learning, threads=session.settings.model.threads)


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
        return {parts.said: "", **looks(session), **choices(session, form)}

    def start(session: Session, *values: Any) -> str:
        session.drift.start(plan_of(session, *values))
        return ""

    def end(session: Session) -> str:
        session.drift.stop()
        return "Stopped; what it has so far is kept."

    events.on(page.load, arrive, [*parts.outputs, form.schedule, form.count])
    events.on(parts.go.click, start, parts.outputs, form.values, after=looks)
    events.on(parts.stop.click, end, queue=False)
    events.on(parts.tick.tick, looks, parts.outputs)
