"""The drift lab: schedule a change of task or model, watch acceptance fall and recover. The runner does the work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import gradio as gr
from fastapi import FastAPI, Request, Response

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.format import count, percent, rate
from omnidraft.lab.export import WINDOW, SegmentRow, picture, plots, segment_rows, to_csv, to_json
from omnidraft.lab.store import RunState, seconds_left
from omnidraft.profiles.importing import taken
from omnidraft.server.guard.auth import session_of_request
from ui.common import notes
from ui.common.frame import EACH, PRIVATE, SMALL, page_column, session_of
from ui.common.notes import CLICKS, note, tip
from ui.drift import form as drift_form
from ui.drift import race as drift_race
from ui.drift.form import OWN, Form

EXPORTS: dict[str, tuple[Callable[[RunState], str], str]] = {
    "csv": (to_csv, "text/csv"),
    "json": (lambda state: json.dumps(to_json(state)), "application/json"),
    "svg": (picture, "image/svg+xml"),
}
LITTLE = 0.05  # accepted, of the drafts: a fall from less shows nothing


def progress(state: RunState | None, doing: str, error: str) -> str:
    """One line and a bar."""
    if state is None:
        return '<p class="od-none">Pick a schedule and start it; the plot grows with every prompt.</p>'
    words = [f"{state.schedule.name}: {state.done} of {state.total} prompts", state.status]
    if state.status in ("new", "running") and doing:
        words.append(doing)
    elif state.status == "running" and (left := seconds_left(state)):
        words.append(f"about {drift_race.duration(left)} left")
    bad = f'<p class="od-note od-bad">{escape(error)}</p>' if error else ""
    share = state.done / state.total
    return (
        f'<div class="od-run" data-status="{state.status}"><p>{escape(", ".join(words))}</p>'
        f'<div class="od-bar"><i style="width:{share:.1%}"></i></div></div>{bad}'
    )


def table(state: RunState) -> str:
    found = segment_rows(state)
    columns: dict[str, Callable[[SegmentRow], str]] = {
        "target": lambda row: escape(row.target),
        "task": lambda row: escape(row.task),
        "prompts": lambda row: count(row.prompts),
        "accepted": lambda row: percent(row.acceptance),
        f"first {WINDOW}": lambda row: percent(row.first),
        f"last {WINDOW}": lambda row: percent(row.last),
        "recovered after": lambda row: f"{row.recovery} prompts" if row.recovery else "–",
        "tokens per pass": lambda row: f"{row.tokens_per_pass or 0:.2f}",
        "tokens/s": lambda row: rate(row.tokens_per_second),
        "n-grams learned": lambda row: count(row.cache_learned),
    }
    if any(row.speedup for row in found):
        columns["speedup"] = _speedup
    rows = (notes.cells([value(row) for value in columns.values()]) for row in found)
    return notes.table([tip(name) for name in columns], "".join(f"<tr>{row}</tr>" for row in rows))


def _speedup(row: SegmentRow) -> str:
    """With its interval; nothing where the prompts are too few to say."""
    if row.speedup is None or row.interval is None:
        return "–"
    low, high = row.interval
    return f"{row.speedup:.2f}× [{low:.2f}, {high:.2f}]"


def story(state: RunState) -> str:
    """What a run showed, in a sentence for each of its parts."""
    rows = segment_rows(state)
    if not rows or rows[0].last is None:
        return ""
    said = [f"{_part(rows[0])}: {percent(rows[0].first)} of the drafts were accepted at first, "
            f"{percent(rows[0].last)} at the end."]  # fmt: skip
    for before, row in pairwise(rows):
        change = "the task" if before.target == row.target else "the model"
        said.append(f"Then {change} changed to {_part(row)}: {_fall(row)}.")
    if max(row.last or 0.0 for row in rows) < LITTLE and not state.options.learning:
        said.append("The drafter knows too little of this to lose any of it; let it learn as it goes.")
    return f'<p class="od-story">{escape(" ".join(said))}</p>'


def _part(row: SegmentRow) -> str:
    return f"{row.target}, {row.task}"


def _fall(row: SegmentRow) -> str:
    """How acceptance went over a change."""
    if row.before is None or row.first is None or row.last is None:
        return "nothing was drafted"
    fell = row.first < row.before
    word = f"{'it fell from' if fell else 'it went from'} {percent(row.before)} to {percent(row.first)}"
    if row.recovery:
        return f"{word} and was back after {row.recovery} prompts" if fell else word
    return f"{word}, and after {row.prompts} prompts it was at {percent(row.last)}"


def exports(state: RunState) -> str:
    links = "".join(f'<a href="/drift/{state.id}.{kind}" download>{kind.upper()}</a>' for kind in EXPORTS)
    return f'<div class="od-links">Export {links}</div>'


def runs(found: Sequence[RunState], current: str | None, beside: str | None = None) -> str:
    """Earlier runs, the newest first, with what can be done with each."""
    if not found:
        return '<p class="od-none">No runs yet.</p>'
    return "".join(_run(state, state.id == current, state.id == beside) for state in found)


def _run(state: RunState, here: bool, beside: bool) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(state.created))
    about = f"{state.options.about}, {state.done} of {state.total}, {state.status}"
    acts = []
    if not here:
        acts += [("show", "Show"), ("compare", "Stop comparing" if beside else "Compare")]
    if state.status != "running":
        acts.append(("delete", "Delete"))
    buttons = "".join(f'<button type="button" data-kind="{k}" data-run="{state.id}">{w}</button>' for k, w in acts)
    tag = '<span class="od-tag">shown</span>' if here else '<span class="od-tag">compared</span>' if beside else ""
    return (
        f'<div class="od-past"><div><b>{escape(state.schedule.name)}</b> {tag} <span>{when}; {about}</span></div>'
        f'<div class="od-card-buttons">{buttons}</div></div>'
    )


EVERY = 2.0  # seconds between looks at a run


class Parts:
    """The page's components, made where the layout stands. shown: the run on the page, and the one it is compared
    with."""

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
        self.links = gr.HTML(elem_id="od-drift-links")
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Runs</h2>")
            self.runs = gr.HTML(elem_id="od-drift-runs", js_on_load=CLICKS)
        self.shown, self.tick = gr.State((None, None)), gr.Timer(EVERY, active=False)
        self.outputs = [
            self.said, self.progress, self.plot, self.table, self.links, self.runs, self.shown, self.tick,
            self.stop, self.go,
        ]  # fmt: skip


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
    _wire_form(sessions, parts)


def _look(parts: Parts, session: Session, run: str | None, other: str | None = None) -> dict:
    lab = session.drift
    state, beside = lab.state(run), lab.state(other)
    seen = state if state is not None and state.points else None
    living = lab.running and lab.current == run
    error = lab.error if lab.current == run else ""
    return {
        parts.said: "",
        parts.shown: (run, other),
        parts.tick: gr.Timer(active=lab.running),
        parts.progress: progress(state, lab.doing if living else "", error),
        parts.plot: story(seen) + "".join(plot.html() for plot in plots(seen, beside)) if seen else "",
        parts.table: table(seen) if seen else "",
        parts.links: exports(seen) if seen else "",
        parts.runs: runs(lab.runs(), run, other),
        parts.stop: gr.Button(visible=lab.running),
        parts.go: gr.Button(visible=not lab.running),
    }


def _wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        latest = session.drift.runs()
        run = session.drift.current or (latest[0].id if latest else None)
        return {**_look(parts, session, run), **drift_form.choices(session, parts.form)}

    def advance(shown: tuple, request: gr.Request) -> dict:
        seen = _look(parts, session_of(sessions, request), *shown)
        return {component: value for component, value in seen.items() if component is not parts.said}

    def end(request: gr.Request) -> dict:
        session_of(sessions, request).drift.stop()
        return {parts.said: note("Stopped; what it has so far is kept.")}

    def act(shown: tuple, request: gr.Request, event: gr.EventData) -> dict:
        session = session_of(sessions, request)
        kind, chosen = event._data["kind"], event._data["run"]
        run, other = shown
        try:
            if kind == "delete":
                session.drift.delete(chosen)
                run, other = (r if r != chosen else None for r in shown)
            elif kind == "compare":
                other = None if chosen == other else chosen
            if kind == "show":
                run, other = chosen, None
            return _look(parts, session, run, other)
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}

    form = [parts.form.model, parts.form.source, parts.form.schedule, parts.form.count]
    page.load(arrive, None, [*parts.outputs, *form], **PRIVATE)
    parts.stop.click(end, None, [parts.said], queue=False, **PRIVATE)
    parts.tick.tick(advance, [parts.shown], parts.outputs, **PRIVATE)
    parts.runs.act(act, [parts.shown], parts.outputs, **EACH)


def _wire_form(sessions: Sessions, parts: Parts) -> None:
    form = parts.form

    def start(
        name: str, count: str, own: str, cache: str, length: str, learning: bool, plain: bool, request: gr.Request
    ) -> dict:
        session = session_of(sessions, request)
        try:
            alone = sessions.accounts is None
            plan = drift_form.plan_of(session, name, count, own, any_file=alone)
            options = drift_form.options_of(session, cache, length, learning, plain)
            targets = {t: drift_form.target_of(session, t, any_file=alone) for t in plan.targets}
            drafter = session.drafter_path(next(iter(targets.values())))
            if drafter is None:
                raise ModelError("There is no drafter; choose one on the Models page.")
            return _look(parts, session, session.drift.start(plan, targets, drafter, options))
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}

    def add(own: str, model: str | None, source: str | None, number: str) -> dict:
        try:
            return {form.parts: drift_form.with_part(own or "", model, source, number), parts.said: ""}
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}

    def upload(file: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            with taken(Path(file)) as upload:
                kept = session.drift.add_prompts(upload)
            told = note(f"{kept.name} can be chosen as prompts now.")
            return {form.source: drift_form.sources(session, kept.name), parts.said: told}
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}

    own_visible = lambda name: (gr.Column(visible=name == OWN), gr.Textbox(visible=name != OWN))  # noqa: E731
    form.schedule.input(own_visible, [form.schedule], [form.own, form.count], **PRIVATE)
    parts.go.click(start, form.values, parts.outputs, **PRIVATE)
    form.add.click(add, [form.parts, form.model, form.source, form.number], [form.parts, parts.said], **PRIVATE)
    form.upload.upload(upload, [form.upload], [form.source, parts.said], **PRIVATE)


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """`/drift/ID.csv`, `.json` and `.svg` for the profile the request belongs to."""

    @app.get("/drift/{name}")
    def export(name: str, request: Request) -> Response:
        session = session_of_request(sessions, request)
        run, _, kind = name.rpartition(".")
        state = session.drift.state(run)
        if state is None or kind not in EXPORTS:
            return Response("There is no such run.", status_code=404, media_type="text/plain")
        headers = {"content-disposition": f'attachment; filename="drift-{state.id}.{kind}"'}
        made, media_type = EXPORTS[kind]
        return Response(made(state), media_type=media_type, headers=headers)
