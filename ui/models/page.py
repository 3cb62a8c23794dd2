"""The models page: what is there, what it would take, loading and unloading, the drafter.

Downloads are model_downloads' business, where models are looked for model_places'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.devices import gpu_offload
from omnidraft.backends.projectors import NO_PROJECTOR
from omnidraft.errors import OmniDraftError
from omnidraft.settings.config import AppSettings, Setting, describe
from omnidraft.settings.named_files import with_named_file
from omnidraft.vocab import PairMap
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from ui.chat.switching import describe_switch
from ui.common import field_events, fields
from ui.common.layout import PRIVATE, mobile_bar, side_head
from ui.common.notes import note
from ui.common.request import session_of
from ui.models import bringing, view
from ui.models import downloads as model_downloads
from ui.models import drafters as model_drafters
from ui.models import places as model_places
from ui.models import workers as model_workers
from ui.settings import NO_GPU

_TOY = "The bundled drafter is a toy: Compare drafters for the model in use, below, offers others that fit it better."
LOADING = ("model.n_ctx", "model.threads", "model.n_gpu_layers", "model.kv_type")


@dataclass(frozen=True, slots=True)
class Parts:
    """The page's components. loading: the settings that decide what a model takes, by name."""

    said: gr.HTML
    listed: gr.HTML
    loading: dict[str, fields.Component]
    downloads: model_downloads.Parts
    places: model_places.Parts
    coverage: gr.State


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Models")
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar()
            gr.HTML("<h1>Models</h1>", elem_classes="od-lead")
            said = gr.HTML(elem_id="od-said")
            listed = gr.HTML(elem_id="od-models", js_on_load=view.SCRIPT)
            brought = bringing.layout()
            loading, downloads, drafters = _loading(), model_downloads.layout(), model_drafters.layout()
            workers = model_workers.layout(own=sessions.accounts is None)
            places = model_places.layout(own=sessions.accounts is None)
    parts = Parts(said, listed, loading, downloads, places, gr.State({}))
    _wire(sessions, page, parts)
    bringing.wire(sessions, brought, said, listed, parts.coverage)
    model_downloads.wire(sessions, downloads, said, listed, parts.coverage)
    model_drafters.wire(sessions, drafters, downloads, said, listed)
    model_places.wire(sessions, places, said, listed, parts.coverage)
    model_workers.wire(sessions, page, workers, said)


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


def _wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    known_settings = _settings()

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return {
            **field_events.arrived(session, parts.loading),
            parts.listed: view.models(session, {}),
            **model_downloads.arrive(sessions, parts.downloads),
            **model_places.arrive(session, parts.places),
        }

    def act(known: dict, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        yield {parts.said: note("One moment.")}
        try:
            told = _act(session, event._data, known)
        except OmniDraftError as error:
            yield {parts.said: note(str(error), bad=True)}
            return
        yield {parts.said: note(told), parts.listed: view.models(session, known), parts.coverage: known}

    shown = [parts.listed, *parts.downloads.shown, *parts.places.shown]
    page.load(arrive, None, [*shown, *parts.loading.values()], **PRIVATE)
    parts.listed.act(act, [parts.coverage], [parts.said, parts.listed, parts.coverage], **PRIVATE)
    for name, field in parts.loading.items():
        after = lambda session: {parts.listed: view.models(session, {})}  # noqa: E731
        field_events.keep(sessions, known_settings[name], field, parts.said, also=[parts.listed], after=after)


def _act(session: Session, asked: dict, coverage: dict) -> str:
    """Do what a row's button says; returns what happened."""
    kind, path, listed = asked["kind"], Path(asked["file"]), models_list.scan(session.assistant)
    found = next((model for model in listed if model.path == path), None)
    if found is None:
        return "This file is no longer there."
    if kind == "use":
        notices = session.choose(path)
        return " ".join([describe_switch(session), *notices, *_better_drafter(session)])
    if kind == "unload":
        session.unload()
        return "Unloaded; the next question loads it again."
    if kind == "projector":
        return _look_through(session, path, str(asked["chosen"]), listed)
    if kind == "draft":
        said = session.choose_drafter(path)
        coverage.clear()  # it was measured with the drafter before
        return said
    drafter = session.drafter_path()
    if drafter is None:
        return "There is no drafter to compare with."
    target = models_list.vocabulary_at(found.path)
    pair = PairMap.build(read_gguf_vocabulary(drafter), target, session.assistant.home.cache)
    report = pair.report()
    coverage[str(path)] = report
    return f"{found.name} shares {report['direct']:,} of its {report['target_size']:,} tokens with the drafter."


def _better_drafter(session: Session) -> list[str]:
    """Where the bundled drafter drafts for a model of somebody else's: how to find one that fits it."""
    drafter = session.drafter_path()
    if session.loaded is None or drafter is None or models_list.is_bundled(session.loaded):
        return []
    return [_TOY] if models_list.is_bundled(drafter) else []


def _look_through(session: Session, model: Path, chosen: str, listed: list[ModelInfo]) -> str:
    """Have a model see pictures through a projector that is listed, none, or the one found beside it."""
    known = [str(one.path) for one in listed if one.kind == "projector"]
    if chosen not in ("", NO_PROJECTOR, *known):
        return "This projector is no longer there."
    kept = with_named_file(session.settings.projectors, model.name, chosen)
    return session.change("projectors", kept).capitalize()
