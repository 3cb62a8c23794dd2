"""The drift lab: schedule a change of task or model, watch acceptance fall and recover. The runner does the work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from omnidraft.bench import drift_plot
from omnidraft.bench.drift_export import to_csv, to_json
from omnidraft.bench.drift_schedule import BUNDLED, MIXED, Schedule, Segment
from omnidraft.bench.drift_store import Options
from omnidraft.bench.prompts import TASKS
from omnidraft.cli.defaults import choose_target
from omnidraft.errors import ModelError, OmniDraftError, SettingsError
from ui import drift_view
from ui.chat_view import note
from ui.layout import mobile_bar, side_head
from ui.request import session_of, session_of_request
from ui.session import Session, Sessions

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
OWN = "my own"
NAMES = {
    "step": "Another task: math, then code",
    "a-a2-a": "Another model of the family: a, a2, a",
    "a-b-a": "A model of another family: a, b, a",
}
CACHES = [("filled from the vocabularies", "seeded"), ("empty at first, the paper's", "empty"), ("off", "off")]
EXAMPLE = "tiny-target-a, dialogue, 20\ntiny-target-b, qa, 20"
EVERY = 2.0  # seconds between looks at a run


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Drift lab")
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar("Drift lab")
            gr.HTML(
                "<h1>Drift lab</h1><p>What happens to the drafter when the task or the model changes, prompt by "
                "prompt, and how the n-gram cache helps it back. No prompt occurs twice.</p>"
            )
            said = gr.HTML(elem_id="od-said")
            with gr.Group(elem_classes="od-group"):
                with gr.Row(elem_classes="od-form"):
                    schedule = gr.Dropdown(
                        [(text, name) for name, text in NAMES.items()] + [("My own schedule", OWN)],
                        value="step",
                        label="Schedule",
                        filterable=False,
                        elem_id="od-schedule",
                    )
                    prompts = gr.Textbox("40", label="Prompts per part", max_lines=1, elem_id="od-count")
                    cache = gr.Dropdown(
                        CACHES,
                        value="seeded",
                        label="N-gram cache",
                        filterable=False,
                        elem_id="od-drift-cache",
                    )
                    length = gr.Textbox("4", label="Draft length, or adaptive", max_lines=1, elem_id="od-drift-length")
                own = gr.Textbox(
                    label="Parts: model, prompts, how many",
                    lines=3,
                    placeholder=EXAMPLE,
                    visible=False,
                    elem_id="od-own",
                    info=f"One a line. Prompts: {', '.join(TASKS)}, {MIXED}, or a .jsonl or .txt file of yours.",
                    elem_classes="od-field",
                )
                plain = gr.Checkbox(
                    label="Measure the speedup as well",
                    elem_id="od-plain",
                    info="Every prompt is answered without the drafter too: twice the time.",
                )
                with gr.Row(elem_classes="od-buttons"):
                    go = gr.Button("Start", variant="primary", size="sm", elem_id="od-drift-start", scale=0)
                    pause = gr.Button("Pause", size="sm", elem_id="od-drift-pause", scale=0, visible=False)
                    stop = gr.Button("Stop", size="sm", variant="stop", elem_id="od-drift-stop", scale=0, visible=False)
            progress = gr.HTML(elem_id="od-drift-progress")
            plot = gr.HTML(elem_id="od-drift-plot")
            table = gr.HTML(elem_id="od-drift-table")
            links = gr.HTML(elem_id="od-drift-links")
            with gr.Group(elem_classes="od-group"):
                gr.HTML("<h2>Runs</h2>")
                runs = gr.HTML(elem_id="od-drift-runs", js_on_load=drift_view.SCRIPT)
    shown = gr.State(None)
    tick = gr.Timer(EVERY, active=False)
    outputs = [said, progress, plot, table, links, runs, shown, tick, pause, stop, go]

    def look(session: Session, run: str | None, told: str = "", bad: bool = False) -> dict:
        lab = session.drift
        state = lab.state(run)
        living = lab.running and lab.current == run
        error = lab.error if lab.current == run else ""
        return {
            said: note(told, bad),
            shown: run,
            tick: gr.Timer(active=lab.running),
            progress: drift_view.progress(state, lab.doing if living else "", lab.seconds_left, error),
            plot: drift_view.plots(state),
            table: drift_view.table(state),
            links: drift_view.exports(state),
            runs: drift_view.runs(lab.store.runs(), run),
            pause: gr.Button(visible=lab.running),
            stop: gr.Button(visible=lab.running),
            go: gr.Button(visible=not lab.running),
        }

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        latest = session.drift.store.runs()
        return look(session, session.drift.current or (latest[0].id if latest else None))

    def begin(name: str, count: str, parts: str, cache: str, length: str, plain: bool, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            plan = _schedule(name, count, parts)
            targets = {t: choose_target(t, sessions.home, session.settings) for t in plan.targets}
            drafter = session.drafter_path()
            if drafter is None:
                raise ModelError("There is no drafter; choose one on the Models page.")
            options = Options(
                cache=cache, draft_length=_length(length), plain=plain, threads=session.settings.model.threads
            )
            return look(session, session.drift.start(plan, targets, drafter, options))
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}

    def advance(run: str | None, request: gr.Request) -> dict:
        return look(session_of(sessions, request), run)

    def halt(request: gr.Request) -> dict:
        session_of(sessions, request).drift.pause()
        return {said: note("Pausing behind the prompt that is being answered.")}

    def end(request: gr.Request) -> dict:
        session_of(sessions, request).drift.stop()
        return {said: note("Stopped; it can be resumed.")}

    def act(run: str | None, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        kind, chosen = event._data["kind"], event._data["run"]
        try:
            if kind == "resume":
                chosen = session.drift.resume(chosen)
            elif kind == "delete":
                session.drift.delete(chosen)
                chosen = run if run != chosen else None
            yield look(session, chosen)
        except OmniDraftError as error:
            yield {said: note(str(error), bad=True)}

    page.load(arrive, None, outputs, **PRIVATE)
    schedule.input(lambda name: gr.Textbox(visible=name == OWN), [schedule], [own], **PRIVATE)
    go.click(begin, [schedule, prompts, own, cache, length, plain], outputs, **PRIVATE)
    pause.click(halt, None, [said], queue=False, **PRIVATE)
    stop.click(end, None, [said], queue=False, **PRIVATE)
    tick.tick(advance, [shown], outputs, **PRIVATE)
    runs.act(act, [shown], outputs, **PRIVATE)


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """`/drift/ID.csv`, `.json` and `.png` for the profile the request belongs to."""

    @app.get("/drift/{name}")
    def export(name: str, request: Request) -> Response:
        session = session_of_request(sessions, request)
        run, _, kind = name.rpartition(".")
        state = session.drift.state(run)
        if state is None or kind not in ("csv", "json", "png"):
            return Response("There is no such run.", status_code=404, media_type="text/plain")
        headers = {"content-disposition": f'attachment; filename="drift-{state.id}.{kind}"'}
        if kind == "csv":
            return Response(to_csv(state), media_type="text/csv", headers=headers)
        if kind == "json":
            return JSONResponse(to_json(state), headers=headers)
        return Response(drift_plot.png(state), media_type="image/png", headers=headers)


def _schedule(name: str, count: str, parts: str) -> Schedule:
    if name != OWN:
        return BUNDLED[name].changed(count=_whole(count, "Prompts per part"))
    segments = []
    for number, line in enumerate((line for line in (parts or "").splitlines() if line.strip()), 1):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3:
            raise SettingsError(f"Part {number} needs a model, prompts and a number, separated by commas.")
        source = fields[1] if fields[1] in (*TASKS, MIXED) else str(Path(fields[1]).expanduser())
        segments.append(Segment(fields[0], source, _whole(fields[2], f"The number of part {number}")))
    return Schedule("my own", tuple(segments))


def _whole(text: str, name: str) -> int:
    if not (text or "").strip().isdecimal():
        raise SettingsError(f"{name} must be a whole number, not '{(text or '')[:40]}'.")
    return int(text)


def _length(text: str) -> int | None:
    return None if (text or "").strip().lower() == "adaptive" else _whole(text, "The draft length")
