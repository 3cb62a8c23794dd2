"""Drafters from the Hub for the model in use: what each is expected to bring; one button fetches and uses one."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import hub_files, hub_fit, models_list
from omnidraft.app.drafters import ASSUMED, PAYS
from omnidraft.app.hub import Download
from omnidraft.app.outlook import measured_cost
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import OmniDraftError
from omnidraft.format import percent
from ui.common.frame import EACH, PRIVATE, session_of
from ui.common.notes import note, note_of
from ui.models import downloads, view

_TOLD = (
    f"For {{}}, by their vocabularies and by what passes take here. Expected speeds assume that {ASSUMED}; what a "
    "drafter has learned from your answers makes that more."
)


class Parts:
    """wanted: the file that is to draft when it has come, "" for none."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML(
                "<h2>Other drafters</h2><p>Compares small models of the Hugging Face Hub with the model in use; "
                "fetches their vocabularies, a few MB each, and nothing else.</p>"
            )
            about = "Compare drafters of the Hub"
            self.compare = gr.Button(about, size="sm", elem_id="od-hub-drafters", scale=0)
            self.offers = gr.HTML(elem_id="od-offers", js_on_load=view.SCRIPT)
        self.wanted, self.tick = gr.State(""), gr.Timer(0.5, active=False)


def wire(sessions: Sessions, parts: Parts, loads: downloads.Parts, said: gr.HTML, listed: gr.HTML) -> None:
    """`loads` shows how far what is fetched has come."""
    running = sessions.downloads

    def compare(request: gr.Request) -> Iterator[dict]:
        session = session_of(sessions, request)
        try:
            path = session.target_path()
            target = models_list.vocabulary_at(path)
            found: list[hub_fit.Drafter] = []
            for known in hub_fit.DRAFTERS:
                yield {said: note(f"Comparing {known.repo} with {path.stem}.")}
                found.append(hub_fit.compared(known, target, session.assistant.home.cache))
        except OmniDraftError as error:
            yield {said: note(str(error), bad=True)}
            return
        rows = "".join(_offer(one, _worth(one, session, path)) for one in hub_fit.ranked(found))
        yield {said: note(_TOLD.format(path.stem)), parts.offers: f'<ul class="od-models">{rows}</ul>'}

    def take(request: gr.Request, event: gr.EventData) -> dict:
        session = session_of(sessions, request)
        try:
            model = _best(session, str(event._data["file"]))
            path = Download(model, session.assistant.home).path
            if not path.exists():
                path = running.start(model, session.assistant.home).path
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        shown = {loads.progress: downloads.progress(running.all), loads.tick: gr.Timer(active=running.running)}
        return {said: "", parts.wanted: str(path), parts.tick: gr.Timer(active=True), **shown}

    def use(wanted: str, request: gr.Request) -> dict:
        if running.running:
            return {parts.tick: gr.Timer(active=True)}
        over = {parts.wanted: "", parts.tick: gr.Timer(active=False)}
        if not wanted or not Path(wanted).exists():  # it was stopped, or failed: its row says so
            return over
        session = session_of(sessions, request)
        told = note_of(lambda: session.choose_drafter(Path(wanted)))
        return {said: told, listed: view.models(session, {}), **over}

    parts.compare.click(compare, None, [said, parts.offers], **PRIVATE)
    parts.offers.act(take, None, [said, parts.wanted, parts.tick, loads.progress, loads.tick], **EACH)
    parts.tick.tick(use, [parts.wanted], [said, listed, parts.wanted, parts.tick], **PRIVATE)


def _best(session: Session, repo: str) -> hub_files.RemoteModel:
    """Of what the repository offers, the one to take."""
    offered = hub_files.list_models(repo)
    fits = hub_fit.fits(offered, session.model_settings, session.assistant.home.cache / "downloads")
    chosen = hub_fit.best(fits, available_bytes())
    if chosen is None:
        raise OmniDraftError(f"Nothing of {repo} fits into the memory that is free.")
    return chosen.model


def _worth(one: hub_fit.Drafter, session: Session, target: Path) -> hub_fit.Worth | None:
    """None as long as nobody knows what the target's passes take."""
    cost = measured_cost(session)
    size = next((model.file_size for model in models_list.scan(session.assistant) if model.path == target), 0)
    return hub_fit.worth(one.known, size, cost) if cost is not None and size else None


def _offer(one: hub_fit.Drafter, worth: hub_fit.Worth | None) -> str:
    repo = escape(one.known.repo)
    facts = [one.known.about, one.label()]
    if worth is not None:
        gain = f"about {worth.speedup:.1f} times plain speed" if worth.speedup > PAYS else "no gain expected here"
        facts += [f"a guess takes {percent(worth.step)} of a pass", gain]
    shown = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    act = f'<button type="button" data-kind="take" data-file="{repo}">Fetch and draft with it</button>'
    return f"<li><h3>{repo}</h3><p>{shown}</p>{act if one.share is not None else ''}</li>"
