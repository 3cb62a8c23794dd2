"""The part of the models page that fetches a model from the Hugging Face Hub: choose, follow, cancel, go on."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from omnidraft.app import hub_files
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from ui.common.layout import PRIVATE
from ui.common.notes import note
from ui.common.request import session_of
from ui.models import cards as model_cards


@dataclass(frozen=True, slots=True)
class Parts:
    """remote: the files of the repository that was looked at, by name."""

    suggested: gr.Dropdown
    repo: gr.Textbox
    look: gr.Button
    files: gr.Dropdown
    fetch: gr.Button
    progress: gr.HTML
    tick: gr.Timer
    remote: gr.State

    @property
    def shown(self) -> list[gr.Component]:
        """What `arrive` fills."""
        return [self.progress, self.tick]


def layout() -> Parts:
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
    return Parts(suggested, repo, look, files, fetch, progress, gr.Timer(0.5, active=False), gr.State({}))


def arrive(sessions: Sessions, parts: Parts) -> dict:
    """The downloads as they stand."""
    running = sessions.downloads
    return {parts.progress: model_cards.downloads(running.all), parts.tick: gr.Timer(active=running.running)}


def wire(sessions: Sessions, parts: Parts, said: gr.HTML, cards: gr.HTML, coverage: gr.State) -> None:
    """`cards` show what is there when a download is done; `coverage` is what the page knows of them."""
    running = sessions.downloads

    def list_files(name: str) -> dict:
        try:
            found = hub_files.list_models(name or "")
        except OmniDraftError as error:
            hidden = {parts.files: gr.Dropdown(visible=False), parts.fetch: gr.Button(visible=False)}
            return {said: note(str(error), bad=True), **hidden}
        choices = [(f"{model.name} ({size(model.size)})", model.name) for model in found]
        licence = found[0].licence
        return {
            said: note(f"Its licence: {licence}.") if licence else "",
            parts.remote: {model.name: model for model in found},
            parts.fetch: gr.Button(visible=True),
            parts.files: gr.Dropdown(choices=choices, value=found[0].name, visible=True),
        }

    def download(name: str, known: dict, request: gr.Request) -> dict:
        try:
            running.start(known[name], session_of(sessions, request).assistant.home)
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        return {said: "", parts.progress: model_cards.downloads(running.all), parts.tick: gr.Timer(active=True)}

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
            update[cards] = model_cards.cards(session_of(sessions, request), known)
        return update

    found = [said, parts.remote, parts.files, parts.fetch]
    parts.suggested.input(lambda name: name, [parts.suggested], [parts.repo], **PRIVATE)
    gr.on([parts.look.click, parts.repo.submit], list_files, [parts.repo], found, **PRIVATE)
    begun = [said, parts.progress, parts.tick]
    parts.fetch.click(download, [parts.files, parts.remote], begun, **PRIVATE)
    parts.progress.act(steer, None, [parts.progress, parts.tick], **PRIVATE)
    parts.tick.tick(advance, [coverage], [parts.progress, parts.tick, cards], **PRIVATE)
