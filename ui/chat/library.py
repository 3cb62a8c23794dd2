"""Presets and prompts of one's own beside the chat: what stands there, and what its events do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from omnidraft.app.conversing import apply_preset, other_model, preset_of, sampling_of, thinking_words
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.pictures import media_type
from omnidraft.chats import (
    ChatStore,
    Conversation,
    Library,
    Preset,
    Prompt,
    export_json,
    export_markdown,
    import_json,
    import_markdown,
)
from omnidraft.chats.foreign.reading import read_foreign
from omnidraft.chats.foreign.turns import is_zip
from omnidraft.errors import OmniDraftError, StorageError
from omnidraft.profiles.importing import taken
from omnidraft.server.guard.auth import session_of_request
from omnidraft.storage.files import reason
from ui.chat.conversation_list import SCRIPT, named_row
from ui.chat.events import Handlers, Updates, telling
from ui.chat.turns import Followed
from ui.common.frame import BARE, SMALL, session_of
from ui.common.notes import note

LINK = '<div class="od-links"><a href="/library.json" download>Export</a></div>'
# What was put into the message box is told to the page script, which keeps it until it is sent.
WRITTEN = """() => {
  const box = document.querySelector('#od-box textarea');
  box.dispatchEvent(new Event('input', {bubbles: true}));
  document.querySelector('#od-shell').classList.remove('od-aside-open');
  box.focus();
}"""


class LibraryParts:
    """The components of the tab, made where the layout stands."""

    def __init__(self) -> None:
        gr.HTML("<h3>Presets</h3><p>System prompt, sampling and model.</p>", elem_classes="od-library-head")
        self.presets = gr.HTML(elem_id="od-presets", js_on_load=SCRIPT)
        with gr.Row(elem_classes="od-keep"):
            self.preset_name = _name("Name for a preset of the options as they are now", "od-preset-name")
            self.keep_preset = gr.Button("Save options", elem_id="od-preset-save", min_width=0, **SMALL)
        gr.HTML("<h3>Prompts</h3><p>A click puts one into the message box.</p>", elem_classes="od-library-head")
        self.prompts = gr.HTML(elem_id="od-prompts", js_on_load=SCRIPT)
        with gr.Row(elem_classes="od-keep"):
            self.prompt_name = _name("Name for a prompt of what stands in the message box", "od-prompt-name")
            self.keep_prompt = gr.Button("Save message", elem_id="od-prompt-save", min_width=0, **SMALL)
        self.said = gr.HTML(elem_id="od-library-said")
        with gr.Row(elem_id="od-library-transfer"):
            gr.HTML(LINK)
            self.upload = gr.UploadButton(
                "Import", file_types=[".json"], elem_id="od-library-import", min_width=0, **SMALL
            )
        self.outputs = [self.presets, self.preset_name, self.prompts, self.prompt_name, self.said]


def _name(label: str, name: str) -> gr.Textbox:
    return gr.Textbox(label=label, placeholder="Name", max_lines=1, elem_id=name, scale=1, **BARE)


@dataclass(frozen=True, slots=True)
class LibraryEvents(Handlers):
    """Saving, applying, inserting, renaming, deleting, importing."""

    parts: LibraryParts

    @property
    def told(self) -> gr.HTML:
        """Refusals stand in the tab."""
        return self.parts.said

    def arrive(self, request: gr.Request) -> dict:
        return {**self._lists(session_of(self.sessions, request)), self.parts.said: ""}

    @telling
    def keep_preset(self, name: str, chat: str | None, request: gr.Request) -> Updates:
        session, here = self.here(request, chat)
        preset = preset_of(session, here, name or "")
        yield from self._kept(session, preset, self.parts.preset_name)

    @telling
    def keep_prompt(self, name: str, text: str, chat: str | None, request: gr.Request) -> Updates:
        session, _ = self.here(request, chat)
        yield from self._kept(session, Prompt(name or "", text or ""), self.parts.prompt_name)

    @telling
    def preset_row(self, chat: str | None, followed: Followed, request: gr.Request, event: gr.EventData) -> Updates:
        """Something was clicked in the list of presets."""
        session, here = self.here(request, chat)
        if event._data["kind"] == "open":
            chosen = session.store.library.get("preset", event._data["id"])
            if isinstance(chosen, Preset):
                yield from self._apply(session, here, chosen, followed)
        else:
            yield self._changed(session, "preset", event._data)

    @telling
    def prompt_row(self, text: str, chat: str | None, request: gr.Request, event: gr.EventData) -> Updates:
        """Something was clicked in the list of prompts."""
        session, _ = self.here(request, chat)
        if event._data["kind"] == "open":
            chosen = session.store.library.get("prompt", event._data["id"])
            if isinstance(chosen, Prompt):
                before = text.rstrip(" ") if text else ""
                between = "\n" if before and not before.endswith("\n") else ""
                yield {self.view.box: before + between + chosen.text, self.parts.said: ""}
        else:
            yield self._changed(session, "prompt", event._data)

    @telling
    def import_file(self, upload: str | None, chat: str | None, request: gr.Request) -> Updates:
        with taken(Path(upload or "")) as file:
            session, _ = self.here(request, chat)
            imported = session.store.library.import_text(_read(file))
        told = ", ".join(f"{number} {kind}{'s' * (number != 1)}" for kind, number in imported.items())
        yield {**self._lists(session), self.parts.said: note(f"Imported: {told}.")}

    def _apply(self, session: Session, chat: str, preset: Preset, followed: Followed) -> Updates:
        view = self.view
        changed = apply_preset(session, chat, preset)
        target, missing = other_model(session, chat, preset)
        told = note(" ".join([f"{preset.name} is applied.", missing]).strip())
        shown = view.options.show(changed, sampling_of(session, changed), thinking_words(session, changed))
        yield {**shown, self.parts.said: told, view.notice: told}
        if target is not None:
            yield from view.switch(session, chat, target, followed)

    def _kept(self, session: Session, item: Preset | Prompt, field: gr.Textbox) -> Updates:
        replaced = session.store.library.save(item)
        told = f"{' '.join(item.name.split())} is {'replaced' if replaced else 'saved'}."
        yield {**self._lists(session), field: "", self.parts.said: note(told)}

    def _changed(self, session: Session, kind: str, data: Any) -> dict:
        library, told = session.store.library, ""
        if data["kind"] == "rename":
            library.rename(kind, data["id"], data["title"])
        elif data["kind"] == "delete":
            library.delete(kind, data["id"], later=True)
            told = f"{data['id']} was deleted."
        return {**self._lists(session), self.parts.said: note(told)}

    def _lists(self, session: Session) -> dict:
        library = session.store.library
        return {self.parts.presets: _presets(library), self.parts.prompts: _prompts(library)}


def _presets(library: Library) -> str:
    rows = [named_row(preset.name, preset.name, extra=_about(preset)) for preset in library.presets()]
    return _list(rows, "None yet.")


def _prompts(library: Library) -> str:
    rows = [named_row(one.name, one.name, extra=" ".join(one.text[:200].split())) for one in library.prompts()]
    return _list(rows, "None yet: write one below and save it.")


def _list(rows: list[str], empty: str) -> str:
    return f'<div class="od-list">{"".join(rows)}</div>' if rows else f'<p class="od-none">{empty}</p>'


def _about(preset: Preset) -> str:
    sampling = f"temperature {preset.sampling.temperature:g}" if preset.sampling else ""
    return " · ".join(part for part in (preset.target or "", sampling, " ".join(preset.system[:80].split())) if part)


# Conversations in and out of the app: the routes that exporting and copying ask, and the import of an upload.


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """What a profile's pages link to: a conversation as `/export/ID.md` and `.json`, several as
    `/export/ID+ID.json`, every one as `/export/all.json`, presets and prompts, a picture, a message."""

    @app.get("/export/{name}")
    def export(name: str, request: Request) -> Response:
        session = session_of_request(sessions, request)
        chat, _, kind = name.rpartition(".")
        try:
            chats = [one.id for one in session.store.conversations()] if chat == "all" else chat.split("+")
            title = session.store.get(chat).title if chats == [chat] else "conversations"
            if kind == "md":
                return _file(export_markdown(session.store, chat), "text/markdown", f"{title}.md")
            if kind == "json":
                return _file(export_json(session.store, chats), "application/json", f"{title}.json")
        except OmniDraftError as error:
            return Response(str(error), status_code=404, media_type="text/plain")
        return Response("There is no such file.", status_code=404, media_type="text/plain")

    @app.get("/picture/{digest}")
    def picture(digest: str, request: Request) -> Response:
        """Never kept by the browser: what is forgotten here shall be gone, and what is encrypted stays so."""
        if (data := session_of_request(sessions, request).store.pictures.get(digest)) is None:
            return PlainTextResponse("This picture is damaged or missing.", status_code=404)
        return Response(data, media_type=media_type(data), headers={"cache-control": "no-store"})

    @app.get("/library.json")
    def library(request: Request) -> Response:
        return _file(session_of_request(sessions, request).store.library.export(), "application/json", "library.json")

    @app.get("/message/{name}")
    def message(name: str, request: Request) -> Response:
        try:
            return PlainTextResponse(session_of_request(sessions, request).store.message(name).content)
        except OmniDraftError as error:
            return PlainTextResponse(str(error), status_code=404)


def import_file(store: ChatStore, file: Path) -> tuple[list[Conversation], str]:
    """The conversations of an uploaded file, added to the store, and a sentence about them.

    A file of ours, or an export of ChatGPT, Open WebUI or LM Studio. StorageError says why none could be added.
    """
    data, zipped = _read(file), is_zip(file)
    if zipped or data.lstrip().removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        if (brought := read_foreign(file)) is not None:
            return store.insert(brought.conversations), brought.sentence()
        if zipped:
            raise StorageError("The file cannot be imported: the archive holds no conversations of a known program.")
        added = import_json(store, data)
    else:
        added = [import_markdown(store, data)]
    return added, f"{len(added)} conversation{'s were' if len(added) != 1 else ' was'} imported."


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StorageError(f"{file.name} cannot be read: {reason(error)}.") from error


def _file(text: str, kind: str, name: str) -> Response:
    safe = "".join(c if c.isalnum() or c in " ._-" else "_" for c in name)
    header = f"attachment; filename*=UTF-8''{quote(safe)}"
    return Response(text, media_type=f"{kind}; charset=utf-8", headers={"content-disposition": header})
