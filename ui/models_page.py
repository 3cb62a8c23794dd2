"""The models page: what is there, what it would take, loading and unloading, the drafter, downloads, where to look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.backends.llama_runtime import gpu_offload
from omnidraft.backends.other_programs import PROGRAMS, places
from omnidraft.config import AppSettings, Setting, describe, value_of
from omnidraft.errors import OmniDraftError
from omnidraft.vocab import PairMap, Vocabulary
from ui import field_events, fields, hub_files, model_cards, models_list
from ui.chat_view import note
from ui.format import size
from ui.layout import mobile_bar, side_head
from ui.request import session_of
from ui.session import Session, Sessions
from ui.settings_page import NO_GPU
from ui.switching import describe_switch

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
LOADING = ("model.n_ctx", "model.threads", "model.n_gpu_layers", "model.kv_type")


@dataclass(frozen=True, slots=True)
class Parts:
    """The page's components. loading: the settings that decide what a model takes, by name."""

    said: gr.HTML
    cards: gr.HTML
    loading: dict[str, fields.Component]
    suggested: gr.Dropdown
    repo: gr.Textbox
    look: gr.Button
    files: gr.Dropdown
    fetch: gr.Button
    progress: gr.HTML
    where: gr.HTML
    programs: gr.CheckboxGroup
    folders: gr.Textbox
    again: gr.Button
    tick: gr.Timer
    remote: gr.State
    coverage: gr.State


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Models")
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar("Models")
            gr.HTML("<h1>Models</h1>", elem_classes="od-lead")
            said = gr.HTML(elem_id="od-said")
            cards = gr.HTML(elem_id="od-cards", js_on_load=model_cards.SCRIPT)
            loading = _loading()
            hub, where = _hub(), _where_to_look()
    extra = gr.Timer(0.5, active=False), gr.State({}), gr.State({})
    parts = Parts(said, cards, loading, *hub, *where, *extra)
    _wire_models(sessions, page, parts)
    _wire_hub(sessions, parts)
    _wire_places(sessions, parts)


def _loading() -> dict[str, fields.Component]:
    with gr.Group(elem_classes="od-group"):
        gr.HTML("<h2>How they are loaded</h2>")
        known = _settings()
        return {
            name: fields.make(known[name], NO_GPU if name == "model.n_gpu_layers" and not gpu_offload() else "")
            for name in LOADING
        }


def _settings() -> dict[str, Setting]:
    return {setting.name: setting for setting in describe(AppSettings)}


def _hub() -> tuple:
    with gr.Group(elem_classes="od-group"):
        gr.HTML(
            "<h2>Get a model</h2><p>From the Hugging Face Hub, the only thing this app ever fetches, and only "
            "when you press a button here.</p>"
        )
        suggested = gr.Dropdown(
            [(why, repo) for repo, why in hub_files.SUGGESTED],
            value=None,
            label="Suggestions",
            elem_id="od-suggested",
            filterable=False,
        )
        repo = gr.Textbox(label="Repository", placeholder="owner/name", elem_id="od-repo", max_lines=1)
        look = gr.Button("Show its files", size="sm", elem_id="od-look", scale=0)
        files = gr.Dropdown([], label="File", elem_id="od-files", filterable=False, visible=False)
        fetch = gr.Button("Download", variant="primary", size="sm", elem_id="od-fetch", scale=0, visible=False)
        progress = gr.HTML(elem_id="od-downloads", js_on_load=model_cards.SCRIPT)
    return suggested, repo, look, files, fetch, progress


def _where_to_look() -> tuple:
    with gr.Group(elem_classes="od-group"):
        gr.HTML("<h2>Where models are looked for</h2>")
        where = gr.HTML(elem_id="od-where")
        programs = gr.CheckboxGroup(
            [(shown, name) for name, shown in PROGRAMS.items()],
            label="Models of other programs",
            info="Listed and used where they lie; nothing of theirs is changed.",
            elem_id="od-programs",
            elem_classes="od-field",
        )
        folders = gr.Textbox(
            label="More folders", lines=2, placeholder="one per line", elem_id="od-folders", elem_classes="od-field"
        )
        again = gr.Button("Look again", size="sm", elem_id="od-scan", scale=0)
    return where, programs, folders, again


def _wire_models(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    known_settings = _settings()

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        loading = {
            field: fields.shown(known_settings[name], value_of(session.settings, name))
            for name, field in parts.loading.items()
        }
        return {
            **loading,
            parts.cards: model_cards.cards(session, {}),
            parts.progress: model_cards.downloads(sessions.downloads.all),
            parts.tick: gr.Timer(active=sessions.downloads.running),
            parts.folders: "\n".join(session.settings.model_folders),
            parts.programs: list(session.settings.model_programs),
            parts.where: _where(session),
        }

    def act(known: dict, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        yield {parts.said: note("One moment.")}
        try:
            told = _act(session, event._data["kind"], Path(event._data["file"]), known)
        except OmniDraftError as error:
            yield {parts.said: note(str(error), bad=True)}
            return
        yield {parts.said: note(told), parts.cards: model_cards.cards(session, known), parts.coverage: known}

    shown = [parts.cards, parts.progress, parts.tick, parts.folders, parts.programs, parts.where]
    page.load(arrive, None, [*shown, *parts.loading.values()], **PRIVATE)
    parts.cards.act(act, [parts.coverage], [parts.said, parts.cards, parts.coverage], **PRIVATE)
    for name, field in parts.loading.items():
        after = lambda session: {parts.cards: model_cards.cards(session, {})}  # noqa: E731
        field_events.keep(sessions, known_settings[name], field, parts.said, also=[parts.cards], after=after)


def _wire_hub(sessions: Sessions, parts: Parts) -> None:
    running = sessions.downloads

    def list_files(name: str) -> dict:
        try:
            found = hub_files.list_models(name or "")
        except OmniDraftError as error:
            hidden = {parts.files: gr.Dropdown(visible=False), parts.fetch: gr.Button(visible=False)}
            return {parts.said: note(str(error), bad=True), **hidden}
        choices = [(f"{model.name} ({size(model.size)})", model.name) for model in found]
        licence = found[0].licence
        return {
            parts.said: note(f"Its licence: {licence}.") if licence else "",
            parts.remote: {model.name: model for model in found},
            parts.fetch: gr.Button(visible=True),
            parts.files: gr.Dropdown(choices=choices, value=found[0].name, visible=True),
        }

    def download(name: str, known: dict, request: gr.Request) -> dict:
        try:
            running.start(known[name], session_of(sessions, request).assistant.home)
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}
        return {parts.said: "", parts.progress: model_cards.downloads(running.all), parts.tick: gr.Timer(active=True)}

    def steer(request: gr.Request, event: gr.EventData) -> dict:
        chosen = running.all[int(event._data["index"])]
        if event._data["kind"] == "cancel":
            chosen.cancel()
            chosen.join(5)
        else:
            running.start(chosen.model, session_of(sessions, request).assistant.home)
        return {parts.progress: model_cards.downloads(running.all), parts.tick: gr.Timer(active=True)}

    def advance(known: dict, request: gr.Request) -> dict:
        busy = running.running
        update: dict = {parts.progress: model_cards.downloads(running.all), parts.tick: gr.Timer(active=busy)}
        if not busy:
            update[parts.cards] = model_cards.cards(session_of(sessions, request), known)
        return update

    found = [parts.said, parts.remote, parts.files, parts.fetch]
    parts.suggested.input(lambda name: name, [parts.suggested], [parts.repo], **PRIVATE)
    gr.on([parts.look.click, parts.repo.submit], list_files, [parts.repo], found, **PRIVATE)
    begun = [parts.said, parts.progress, parts.tick]
    parts.fetch.click(download, [parts.files, parts.remote], begun, **PRIVATE)
    parts.progress.act(steer, None, [parts.progress, parts.tick], **PRIVATE)
    parts.tick.tick(advance, [parts.coverage], [parts.progress, parts.tick, parts.cards], **PRIVATE)


def _wire_places(sessions: Sessions, parts: Parts) -> None:
    def keep_folders(text: str, known: dict, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        wanted = tuple(line.strip() for line in (text or "").splitlines() if line.strip())
        missing = [folder for folder in wanted if not _is_folder(folder)]
        if missing:
            return {parts.said: note(f"There is no folder {missing[0]}.", bad=True)}
        return keep(session, known, model_folders=tuple(str(Path(folder).expanduser()) for folder in wanted))

    def keep_programs(names: list[str], known: dict, request: gr.Request) -> dict:
        return keep(session_of(sessions, request), known, model_programs=tuple(names))

    def keep(session: Session, known: dict, **values: object) -> dict:
        try:
            session.apply(**values)
        except OmniDraftError as error:
            return {parts.said: note(str(error), bad=True)}
        return {parts.said: "", parts.cards: model_cards.cards(session, known), parts.where: _where(session)}

    changed = [parts.said, parts.cards, parts.where]
    gr.on([parts.folders.blur, parts.again.click], keep_folders, [parts.folders, parts.coverage], changed, **PRIVATE)
    parts.programs.input(keep_programs, [parts.programs, parts.coverage], changed, **PRIVATE)


def _is_folder(text: str) -> bool:
    try:
        return Path(text).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL inside, no such user
        return False


def _act(session: Session, kind: str, path: Path, coverage: dict) -> str:
    """Do what a card's button says; returns what happened."""
    found = next((m for m in models_list.scan(session.assistant) if m.path == path), None)
    if found is None:
        return "This file is no longer there."
    if kind == "use":
        said = session.choose(path)
        return " ".join([describe_switch(session), *said])
    if kind == "unload":
        session.unload()
        return "Unloaded; the next question loads it again."
    if kind == "draft":
        return session.choose_drafter(path)
    drafter = session.drafter_path()
    if drafter is None:
        return "There is no drafter to compare with."
    pair = PairMap.build(Vocabulary.from_gguf(drafter), models_list.vocabulary(found), session.assistant.home.cache)
    report = pair.report()
    coverage[str(path)] = report
    return f"{found.name} shares {report['direct']:,} of its {report['target_size']:,} tokens with the drafter."


def _where(session: Session) -> str:
    listed = [escape(str(place)) for place in models_list.folders(session.assistant)]
    for name in session.settings.model_programs:
        there = [place for place in places(name) if _is_folder(str(place))] if name in PROGRAMS else []
        listed += [f"{PROGRAMS[name]}: {escape(str(place))}" for place in there]
        if name in PROGRAMS and not there:
            listed.append(f"{PROGRAMS[name]}: it keeps no models on this machine")
    return '<ul class="od-places">' + "".join(f"<li>{place}</li>" for place in listed) + "</ul>"
