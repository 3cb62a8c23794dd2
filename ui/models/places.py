"""The part of the models page that says where models are looked for: the user's folders and other programs' ones."""

from __future__ import annotations

from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.catalog import existing_path
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.discovery import PROGRAMS, places
from omnidraft.errors import OmniDraftError
from ui.common.frame import PRIVATE, session_of
from ui.common.notes import note
from ui.models import view

SHARED = "With accounts, models come from the folders that all share; whoever runs this app puts them there."


class Parts:
    """own: whether one may name folders oneself, which with accounts nobody may: they are the whole machine's."""

    def __init__(self, own: bool) -> None:
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
                info="" if own else SHARED,
                lines=2,
                placeholder="one per line" if own else "",
                interactive=own,
                elem_id="od-folders",
                elem_classes="od-field",
            )
            with gr.Row(elem_classes="od-keep", visible=own):
                self.path = gr.Textbox(
                    label="Add a model by its path", placeholder="/where/it/lies/model.gguf", max_lines=1,
                    elem_id="od-by-path", info="It is read where it lies.",
                )  # fmt: skip
                self.add = gr.Button("Add", size="sm", elem_id="od-by-path-add", scale=0, min_width=0)
            self.again = gr.Button("Look again", size="sm", elem_id="od-scan", scale=0)
        self.shown = [self.where, self.programs, self.folders]  # what `arrive` fills


def arrive(session: Session, parts: Parts) -> dict:
    """The places as the profile has them."""
    return {
        parts.folders: "\n".join(session.settings.model_folders),
        parts.programs: list(session.settings.model_programs),
        parts.where: _where(session),
    }


def wire(sessions: Sessions, parts: Parts, said: gr.HTML, listed: gr.HTML, coverage: gr.State) -> None:
    """`listed` shows what is found; `coverage` is what the page knows of them."""

    def keep_folders(text: str, known: dict, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        wanted = tuple(line.strip() for line in (text or "").splitlines() if line.strip())
        if sessions.accounts is not None and wanted != session.settings.model_folders:
            return {said: note(SHARED, bad=True)}  # before anything is looked at: whether it is there is no answer
        if refused := next(filter(None, (_refusal(session, folder) for folder in wanted)), ""):
            return {said: note(refused, bad=True)}
        return keep(session, known, model_folders=tuple(str(Path(folder).expanduser()) for folder in wanted))

    def add(path: str, known: dict, request: gr.Request) -> dict:
        session, wanted = session_of(sessions, request), (path or "").strip().strip("'\"")
        folders = session.settings.model_folders
        answer = keep_folders("\n".join(dict.fromkeys([*folders, wanted])), known, request)
        if session.settings.model_folders == folders:  # refused, or known already
            return answer
        told = note(f"{Path(wanted).name} is listed, and read where it lies.")
        return {**answer, said: told, parts.path: "", parts.folders: "\n".join(session.settings.model_folders)}

    def keep_programs(names: list[str], known: dict, request: gr.Request) -> dict:
        return keep(session_of(sessions, request), known, model_programs=tuple(names))

    def keep(session: Session, known: dict, **values: object) -> dict:
        try:
            session.apply(**values)
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        return {said: "", listed: view.models(session, known), parts.where: _where(session)}

    changed = [said, listed, parts.where]
    gr.on([parts.folders.blur, parts.again.click], keep_folders, [parts.folders, coverage], changed, **PRIVATE)
    gr.on(
        [parts.path.submit, parts.add.click], add, [parts.path, coverage], [*changed, parts.path, parts.folders],
        **PRIVATE,
    )  # fmt: skip
    parts.programs.input(keep_programs, [parts.programs, coverage], changed, **PRIVATE)


def _refusal(session: Session, folder: str) -> str:
    """Why models are not looked for in a folder, or a file is not listed; empty if they are."""
    if not _is_folder(folder) and not ((found := existing_path(folder)) and found.is_file()):
        return f"There is no folder or file {folder}."
    if models_list.is_private(session.assistant, Path(folder).expanduser()):
        return f"{folder} belongs to a profile; what is trained there is used by itself."
    return ""


def _is_folder(text: str) -> bool:
    try:
        return Path(text).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL inside, no such user
        return False


def _where(session: Session) -> str:
    listed = [escape(str(place)) for place in models_list.folders(session.assistant)]
    for name in session.settings.model_programs:
        there = [place for place in places(name) if _is_folder(str(place))] if name in PROGRAMS else []
        listed += [f"{PROGRAMS[name]}: {escape(str(place))}" for place in there]
        if name in PROGRAMS and not there:
            listed.append(f"{PROGRAMS[name]}: it keeps no models on this machine")
    return '<ul class="od-places">' + "".join(f"<li>{place}</li>" for place in listed) + "</ul>"
