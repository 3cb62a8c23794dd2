"""The models page: what is there, what it would take, loading and unloading, the drafter, downloads."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from omnidraft.errors import OmniDraftError
from omnidraft.vocab import PairMap, Vocabulary
from ui import hub, model_cards, models_list
from ui.chat_view import note
from ui.format import size
from ui.layout import mobile_bar, side_head
from ui.request import session_of
from ui.session import Session, Sessions
from ui.switching import describe_switch

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


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
            with gr.Group(elem_classes="od-group"):
                gr.HTML(
                    "<h2>Get a model</h2><p>From the Hugging Face Hub, the only thing this app ever fetches, and only "
                    "when you press a button here.</p>"
                )
                with gr.Row(elem_classes="od-buttons"):
                    suggested = gr.Dropdown(
                        [(f"{repo} ({why})", repo) for repo, why in hub.SUGGESTED],
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
            with gr.Group(elem_classes="od-group"):
                gr.HTML("<h2>Where models are looked for</h2>")
                where = gr.HTML(elem_id="od-where")
                folders = gr.Textbox(
                    label="More folders",
                    lines=2,
                    placeholder="one per line",
                    elem_id="od-folders",
                    elem_classes="od-field",
                )
                again = gr.Button("Look again", size="sm", elem_id="od-scan", scale=0)
    tick = gr.Timer(0.5, active=False)
    remote, coverage = gr.State({}), gr.State({})

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return {
            cards: model_cards.cards(session, {}),
            progress: model_cards.downloads(sessions.downloads.all),
            tick: gr.Timer(active=sessions.downloads.running),
            folders: "\n".join(session.settings.model_folders),
            where: _where(session),
        }

    def act(known: dict, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session = session_of(sessions, request)
        path = Path(event._data["file"])
        yield {said: note("One moment.")}
        try:
            told = _act(session, event._data["kind"], path, known)
        except OmniDraftError as error:
            yield {said: note(str(error), bad=True)}
            return
        yield {said: note(told), cards: model_cards.cards(session, known), coverage: known}

    def list_files(name: str) -> dict:
        try:
            found = hub.list_files(name or "")
        except OmniDraftError as error:
            return {
                said: note(str(error), bad=True),
                files: gr.Dropdown(visible=False),
                fetch: gr.Button(visible=False),
            }
        choices = [(f"{f.name} ({size(f.size)})", f.name) for f in found]
        return {
            said: "",
            remote: {f.name: f for f in found},
            fetch: gr.Button(visible=True),
            files: gr.Dropdown(choices=choices, value=found[0].name, visible=True),
        }

    def download(name: str, known: dict, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            sessions.downloads.start(known[name], session.assistant.home.models)
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        return {said: "", progress: model_cards.downloads(sessions.downloads.all), tick: gr.Timer(active=True)}

    def steer(request: gr.Request, event: gr.EventData) -> dict:
        session = session_of(sessions, request)
        chosen = sessions.downloads.all[int(event._data["index"])]
        if event._data["kind"] == "cancel":
            chosen.cancel()
            chosen.join(5)
        else:
            sessions.downloads.start(chosen.file, session.assistant.home.models)
        return {progress: model_cards.downloads(sessions.downloads.all), tick: gr.Timer(active=True)}

    def advance(known: dict, request: gr.Request) -> dict:
        running = sessions.downloads.running
        update: dict = {progress: model_cards.downloads(sessions.downloads.all), tick: gr.Timer(active=running)}
        if not running:
            update[cards] = model_cards.cards(session_of(sessions, request), known)
        return update

    def keep_folders(text: str, known: dict, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        wanted = tuple(line.strip() for line in (text or "").splitlines() if line.strip())
        missing = [folder for folder in wanted if not Path(folder).expanduser().is_dir()]
        try:
            if missing:
                return {said: note(f"There is no folder {missing[0]}.", bad=True)}
            session.apply(model_folders=tuple(str(Path(folder).expanduser()) for folder in wanted))
        except OmniDraftError as error:
            return {said: note(str(error), bad=True)}
        return {said: "", cards: model_cards.cards(session, known)}

    page.load(arrive, None, [cards, progress, tick, folders, where], **PRIVATE)
    cards.act(act, [coverage], [said, cards, coverage], **PRIVATE)
    suggested.input(lambda name: name, [suggested], [repo], **PRIVATE)
    gr.on([look.click, repo.submit], list_files, [repo], [said, remote, files, fetch], **PRIVATE)
    fetch.click(download, [files, remote], [said, progress, tick], **PRIVATE)
    progress.act(steer, None, [progress, tick], **PRIVATE)
    tick.tick(advance, [coverage], [progress, tick, cards], **PRIVATE)
    gr.on([folders.blur, again.click], keep_folders, [folders, coverage], [said, cards], **PRIVATE)


def _act(session: Session, kind: str, path: Path, coverage: dict) -> str:
    """Do what a card's button says; returns what happened."""
    if not any(m.path == path for m in models_list.scan(session.assistant)):
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
    pair = PairMap.build(Vocabulary.from_gguf(drafter), Vocabulary.from_gguf(path), session.assistant.home.cache)
    report = pair.report()
    coverage[str(path)] = report
    return f"{path.stem} shares {report['direct']:,} of its {report['target_size']:,} tokens with the drafter."


def _where(session: Session) -> str:
    places = models_list.folders(session.assistant)
    return '<ul class="od-places">' + "".join(f"<li>{place}</li>" for place in map(_shown, places)) + "</ul>"


def _shown(place: Path) -> str:
    return escape(str(place))
