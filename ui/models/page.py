"""The models page: what is there, what it would take, loading and unloading, the drafter.

Downloads are `downloads`' business; folders and workers are `places`'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.outlook import best, drafters_of
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.discovery import NO_PROJECTOR
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import OmniDraftError
from omnidraft.format import rate
from omnidraft.processes.progress import CalledOff, Overtaken
from omnidraft.settings.config import with_named_file
from ui.chat.parts import describe_switch, pair_numbers
from ui.common import fields
from ui.common.events import Events
from ui.common.frame import page_column
from ui.common.notes import note
from ui.models import downloads, places, view

LOOK_EVERY = 0.4  # seconds between looks at how far a model is loaded
_ACTS = futures.ThreadPoolExecutor(thread_name_prefix="models")
LOADING = ("model.n_ctx", "model.threads", "model.n_gpu_layers", "model.kv_type")


class Parts:
    """The page's components. loading: the settings that decide what a model takes, by name."""

    def __init__(self) -> None:
        gr.HTML("<h1>Models</h1>", elem_classes="od-lead")
        self.said = gr.HTML(elem_id="od-said")
        self.listed = gr.HTML(elem_id="od-models", js_on_load=view.SCRIPT)
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>How they are loaded</h2>")
            self.loading = {name: fields.make(name) for name in LOADING}
        self.downloads = downloads.Parts()
        self.workers, self.places = places.WorkerParts(), places.Parts()


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Models"):
        parts = Parts()
    events, listed = Events(sessions, parts.said), parts.listed
    _wire(events, page, parts)
    downloads.wire(events, parts.downloads, listed)
    places.wire(events, parts.places, listed)
    places.wire_workers(events, page, parts.workers)


def _wire(events: Events, page: gr.Blocks, parts: Parts) -> None:
    said, listed = parts.said, parts.listed

    def rows(session: Session) -> dict:
        return {listed: view.models(session)}

    def arrive(session: Session) -> dict:
        return {
            **fields.arrived(session, parts.loading),
            **rows(session),
            **downloads.arrive(events.sessions, session, parts.downloads),
            **places.arrive(session, parts.places),
        }

    def act(session: Session, asked: dict) -> Iterator[dict]:
        name, kind = Path(asked["file"]).stem, asked["kind"]
        if kind == "cancel":
            session.call_off()
            yield {listed: gr.skip()}
            return
        yield {said: note(f"Loading {name}." if kind == "use" else "One moment.")}
        begun = _ACTS.submit(_act, session, asked)
        while futures.wait([begun], LOOK_EVERY).not_done:
            if session.loading is not None:
                yield rows(session)
        try:
            more = pair_numbers(session) if kind == "use" else ""
            shown = {said: note(begun.result(), more=more)}
        except Overtaken:  # who chose the other one hears of that
            shown = {}
        except OmniDraftError as error:
            shown = {said: note(str(error), bad=not isinstance(error, CalledOff))}
        yield {**shown, **rows(session)}

    def follow(session: Session) -> Iterator[dict]:
        """A page that comes while a model is being loaded sees how far that is."""
        yield {listed: gr.skip()}
        while session.loading is not None:
            yield rows(session)
            time.sleep(LOOK_EVERY)
            if session.loading is None:
                yield rows(session)

    shown = [listed, *parts.downloads.shown, *parts.places.shown]
    arrived = events.on(page.load, arrive, [*shown, *parts.loading.values()])
    events.on(arrived.then, follow, [listed])
    events.click(listed, act, [listed])
    fields.keep(events, parts.loading, also=[listed], after=rows)


def _act(session: Session, asked: dict) -> str:
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
        return _look_through(session, path, str(asked["value"]), listed)
    return session.choose_drafter(path)


def _better_drafter(session: Session) -> list[str]:
    """The model at hand that is expected to draft better than the one that does."""
    found = models_list.scan(session.assistant)
    offered = drafters_of(session, found)
    better = best(offered, session.drafter_path())
    if session.ready and offered and not offered[0].pays:
        return ["None of the drafters that are here is expected to make it faster on this machine."]
    if better is None:
        return []
    pace = f": about {rate(better.speed)} tokens/s" if better.speed is not None else ""
    return [f"{better.model.name}, which is here, is expected to draft better for it{pace}; choose it below the list."]


def _look_through(session: Session, model: Path, chosen: str, listed: list[ModelInfo]) -> str:
    """Have a model see pictures through a projector that is listed, none, or the one found beside it."""
    known = [str(one.path) for one in listed if one.kind == "projector"]
    if chosen not in ("", NO_PROJECTOR, *known):
        return "This projector is no longer there."
    kept = with_named_file(session.settings.projectors, model.name, chosen)
    return session.change("projectors", kept).capitalize()
