"""The parts of the models page that say where models lie and are computed: folders that are looked into, and other
machines that hold layers of a model this one cannot hold alone."""

from __future__ import annotations

from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list, worker_list
from omnidraft.app.models_list import existing_path
from omnidraft.app.session import Session
from omnidraft.app.worker_list import Named
from omnidraft.backends.discovery import PROGRAMS, places
from omnidraft.errors import SettingsError
from omnidraft.format import size
from ui.common.events import Events
from ui.common.frame import SMALL
from ui.common.notes import cells, note, table
from ui.models import view


class Parts:
    """What is shown of the places, made where the layout stands."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Where models are looked for</h2>")
            self.where = gr.HTML(elem_id="od-where")
            self.programs = gr.CheckboxGroup(
                [(shown, name) for name, shown in PROGRAMS.items()],
                label="Models of other programs",
                info="Listed and used where they lie; nothing of theirs is changed.",
                elem_id="od-programs",
                elem_classes="od-field",
            )
            self.folders = gr.Textbox(
                label="More folders, or model files",
                lines=2,
                placeholder="one per line",
                elem_id="od-folders",
                elem_classes="od-field",
            )
            with gr.Row(elem_classes="od-keep"):
                self.path = gr.Textbox(
                    label="Add a model by its path", placeholder="/where/it/lies/model.gguf", max_lines=1,
                    elem_id="od-by-path", info="It is read where it lies.",
                )  # fmt: skip
                self.add = gr.Button("Add", elem_id="od-by-path-add", min_width=0, **SMALL)
            self.again = gr.Button("Look again", elem_id="od-scan", **SMALL)
        self.shown = [self.where, self.programs, self.folders]  # what `arrive` fills


def arrive(session: Session, parts: Parts) -> dict:
    """The places as the profile has them."""
    return {
        parts.folders: "\n".join(session.settings.model_folders),
        parts.programs: list(session.settings.model_programs),
        parts.where: _where(session),
    }


def wire(events: Events, parts: Parts, listed: gr.HTML) -> None:
    """`listed` shows what is found."""

    def keep_folders(session: Session, text: str) -> dict:
        wanted = tuple(line.strip() for line in (text or "").splitlines() if line.strip())
        if refused := next(filter(None, (_refusal(session, folder) for folder in wanted)), ""):
            raise SettingsError(refused)
        return keep(session, model_folders=tuple(str(Path(folder).expanduser()) for folder in wanted))

    def add(session: Session, path: str) -> dict:
        wanted, folders = (path or "").strip().strip("'\""), session.settings.model_folders
        answer = keep_folders(session, "\n".join(dict.fromkeys([*folders, wanted])))
        if session.settings.model_folders == folders:  # known already
            return answer
        told = note(f"{Path(wanted).name} is listed, and read where it lies.")
        return {**answer, events.said: told, parts.path: "", parts.folders: "\n".join(session.settings.model_folders)}

    def keep_programs(session: Session, names: list[str]) -> dict:
        return keep(session, model_programs=tuple(names))

    def keep(session: Session, **values: object) -> dict:
        session.apply(**values)
        return {events.said: "", listed: view.models(session), parts.where: _where(session)}

    changed = [listed, parts.where]
    events.on([parts.folders.blur, parts.again.click], keep_folders, changed, [parts.folders])
    events.on([parts.path.submit, parts.add.click], add, [*changed, parts.path, parts.folders], [parts.path])
    events.on(parts.programs.input, keep_programs, changed, [parts.programs])


def _refusal(session: Session, folder: str) -> str:
    """Why models are not looked for in a folder, or a file is not listed; empty if they are."""
    if (found := existing_path(folder)) is None or not (found.is_dir() or found.is_file()):
        return f"There is no folder or file {folder}."
    if models_list.is_private(session.assistant, Path(folder).expanduser()):
        return f"{folder} belongs to a profile; what is trained there is used by itself."
    return ""


def _where(session: Session) -> str:
    listed = [escape(str(place)) for place in models_list.folders(session.assistant)]
    for name in session.settings.model_programs:
        there = [place for place in places(name) if existing_path(str(place))] if name in PROGRAMS else []
        listed += [f"{PROGRAMS[name]}: {escape(str(place))}" for place in there]
        if name in PROGRAMS and not there:
            listed.append(f"{PROGRAMS[name]}: it keeps no models on this machine")
    return '<ul class="od-places">' + "".join(f"<li>{place}</li>" for place in listed) + "</ul>"


_WORKERS = (
    "<p>Machines that hold layers of a model too large for this one. Start <code>python -m omnidraft worker</code> "
    "there and reach it through <code>ssh -L</code>: the connection has neither password nor encryption of its own. "
    "Drafter, chats and learning stay here.</p>"
)
_COLUMNS = ("Worker", "State", "Memory free", "Protocol", "Round trip", "Layers", "")


class WorkerParts:
    """The group of workers, made where the layout stands."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Workers</h2>" + _WORKERS)
            self.listed = gr.HTML(elem_id="od-workers", js_on_load=view.SCRIPT)
            self.address = gr.Textbox(
                label="Another worker",
                placeholder="127.0.0.1:50052",
                max_lines=1,
                elem_id="od-worker-address",
                elem_classes="od-field",
            )
            with gr.Row(elem_classes="od-buttons"):
                self.add = gr.Button("Add", elem_id="od-worker-add", **SMALL)
                self.again = gr.Button("Ask again", elem_id="od-worker-ask", **SMALL)


def wire_workers(events: Events, page: gr.Blocks, parts: WorkerParts) -> None:
    """What happens on `page`."""

    def standing(session: Session) -> dict:
        return {parts.listed: _listed(session)}

    def changed(session: Session, told: str) -> dict:
        return {events.said: note(told), **standing(session), parts.address: ""}

    def add(session: Session, text: str) -> dict:
        return changed(session, worker_list.add(session, text or ""))

    def remove(session: Session, data: dict) -> dict:
        return changed(session, worker_list.remove(session, str(data["file"])))

    after = [parts.listed, parts.address]
    events.on([parts.add.click, parts.address.submit], add, after, [parts.address])
    events.click(parts.listed, remove, after)
    events.on([page.load, parts.again.click], standing, [parts.listed])  # who is away keeps nobody waiting


def _listed(session: Session) -> str:
    named = worker_list.named(session)
    if not named:
        return '<p class="od-none">No workers are named; this machine computes alone.</p>'
    where = worker_list.plan(session)
    sentence = f'<p class="od-note">Of the loaded model: {escape(str(where))}.</p>' if where is not None else ""
    return table(_COLUMNS, "".join(map(_worker, named))) + sentence


def _worker(worker: Named) -> str:
    found, address = worker.found, escape(str(worker.address))
    remove = f'<button type="button" data-kind="remove" data-file="{address}">Remove</button>'
    if found is None:
        state = f'<td colspan="5" class="od-bad">{escape(worker.state)}</td>'
        return f"<tr><td>{address}</td>{state}<td>{remove}</td></tr>"
    facts = (worker.state, size(found.free), found.version, f"{1000 * found.latency:.2f} ms", worker.layers or "–")
    return f"<tr>{cells((address, *map(escape, facts), remove))}</tr>"
