"""The drift lab: schedule a change of task or model, watch acceptance fall and recover. The runner does the work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gradio as gr
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.lab.export import picture, to_csv, to_json
from omnidraft.profiles.importing import taken
from omnidraft.server.guard.auth import session_of_request
from ui.common.frame import EACH, PRIVATE, page_column, session_of
from ui.common.notes import note, tip
from ui.drift import form as drift_form
from ui.drift import race as drift_race
from ui.drift import view as drift_view
from ui.drift.form import OWN, Form

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
            hidden = {"size": "sm", "scale": 0, "visible": False}
            with gr.Row(elem_classes="od-buttons"):
                self.go = gr.Button("Start", variant="primary", size="sm", elem_id="od-drift-start", scale=0)
                self.stop = gr.Button("Stop", variant="stop", elem_id="od-drift-stop", **hidden)
        self.progress = gr.HTML(elem_id="od-drift-progress")
        self.plot = gr.HTML(elem_id="od-drift-plot")
        self.table = gr.HTML(elem_id="od-drift-table")
        self.links = gr.HTML(elem_id="od-drift-links")
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Runs</h2>")
            self.runs = gr.HTML(elem_id="od-drift-runs", js_on_load=drift_view.SCRIPT)
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
        race = drift_race.layout()
        parts = Parts()
    drift_race.wire(sessions, page, race)
    _wire(sessions, page, parts)
    _wire_form(sessions, parts)


def _look(parts: Parts, session: Session, run: str | None, other: str | None = None, told: str = "") -> dict:
    lab = session.drift
    state, beside = lab.state(run), lab.state(other)
    living = lab.running and lab.current == run
    error = lab.error if lab.current == run else ""
    return {
        parts.said: note(told),
        parts.shown: (run, other),
        parts.tick: gr.Timer(active=lab.running),
        parts.progress: drift_view.progress(state, lab.doing if living else "", lab.seconds_left, error),
        parts.plot: drift_view.told(state, beside),
        parts.table: drift_view.table(state),
        parts.links: drift_view.exports(state),
        parts.runs: drift_view.runs(lab.runs(), run, other),
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

    def act(shown: tuple, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
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
            yield _look(parts, session, run, other)
        except OmniDraftError as error:
            yield {parts.said: note(str(error), bad=True)}

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
        if state is None or kind not in ("csv", "json", "svg"):
            return Response("There is no such run.", status_code=404, media_type="text/plain")
        headers = {"content-disposition": f'attachment; filename="drift-{state.id}.{kind}"'}
        if kind == "csv":
            return Response(to_csv(state), media_type="text/csv", headers=headers)
        if kind == "json":
            return JSONResponse(to_json(state), headers=headers)
        return Response(picture(state), media_type="image/svg+xml", headers=headers)
