"""The profiles page: who is there, which one this browser works in, a new one, one to remove."""

from __future__ import annotations

from html import escape

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.errors import SettingsError
from omnidraft.format import size
from omnidraft.profiles.folders import create_profile, delete_profile, describe_profile, list_profiles, profile_size
from omnidraft.storage.paths import ProfilePaths
from ui.common import notes
from ui.common.events import Events
from ui.common.frame import SMALL, page_column
from ui.common.notes import note

TITLE = '<h2 class="od-hidden">Profiles on this machine</h2>'


class Parts:
    """The page's components, made where the layout stands. doomed: the name of the profile about to be deleted."""

    def __init__(self) -> None:
        gr.HTML(
            "<h1>Profiles</h1><p>Each has its own conversations, caches, answers to learn from, and adapters; models "
            "are shared.</p>",
            elem_classes="od-lead",
        )
        self.said = gr.HTML(elem_id="od-said")
        self.cards = gr.HTML(elem_id="od-profiles", js_on_load=notes.CLICKS)
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>New profile</h2>")
            self.name = gr.Textbox(label="Name", max_lines=1, elem_id="od-profile-name", elem_classes="od-field")
            self.make = gr.Button("Create", elem_id="od-profile-create", **SMALL)
        with gr.Group(elem_classes="od-group", visible=False) as self.sure:
            self.warning = gr.HTML()
            self.typed = gr.Textbox(
                label="Its name, to be sure", max_lines=1, elem_id="od-profile-typed", elem_classes="od-field"
            )
            self.remove = gr.Button("Delete for good", elem_id="od-profile-remove", variant="stop", **SMALL)
        self.doomed = gr.State(None)


def add_routes(app: FastAPI, sessions: Sessions) -> None:
    """Who is there, for the switch beside every page."""

    @app.get("/profile-names")
    def names(request: Request) -> JSONResponse:
        here = session_of_request(sessions, request).profile
        known = [one.name for one in list_profiles(sessions.home)]
        return JSONResponse({"here": here, "names": known})


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Profiles"):
        parts = Parts()

    def cards(session: Session) -> dict:
        return {parts.cards: _cards(sessions, session)}

    def create(session: Session, wanted: str) -> dict:
        made = create_profile(sessions.home, wanted.strip())
        return {parts.said: note(f"{made.name} was created."), parts.name: "", **cards(session)}

    def doom(_: Session, data: dict) -> dict:
        chosen = data["name"]
        told = f"<h2>Delete {escape(chosen)}</h2><p>Its conversations, caches, replay and adapters go with it.</p>"
        return {parts.doomed: chosen, parts.sure: gr.Group(visible=True), parts.warning: told, parts.typed: ""}

    def delete(session: Session, wanted: str, text: str) -> dict:
        if text.strip() != wanted:
            raise SettingsError("The names differ; nothing was deleted.")
        sessions.drop(wanted)
        delete_profile(sessions.home, wanted)
        return {parts.said: note(f"{wanted} was deleted."), parts.sure: gr.Group(visible=False), **cards(session)}

    events = Events(sessions, parts.said)
    events.on(page.load, cards, [parts.cards])
    events.on([parts.make.click, parts.name.submit], create, [parts.name, parts.cards], [parts.name])
    events.click(parts.cards, doom, [parts.doomed, parts.sure, parts.warning, parts.typed])
    gone = [parts.remove.click, parts.typed.submit]
    events.on(gone, delete, [parts.sure, parts.cards], [parts.doomed, parts.typed])


def _cards(sessions: Sessions, session: Session) -> str:
    shown = "".join(_card(profile, sessions, session) for profile in list_profiles(sessions.home))
    return f'{TITLE}<div class="od-cards">{shown}</div>'


def _card(profile: ProfilePaths, sessions: Sessions, session: Session) -> str:
    """Of the one in use, where each part lives and what it takes."""
    name = escape(profile.name)
    if profile.name == session.profile:
        tag, about = '<span class="od-tag">in use here</span>', notes.files(describe_profile(profile), profile.root)
        return f'<article class="od-card"><h3>{name}{tag}</h3>{about}</article>'
    buttons = f'<button type="button" data-profile="{name}">Use it</button>'
    if profile.name != sessions.default:
        buttons += f'<button type="button" data-kind="delete" data-name="{name}">Delete</button>'
    return (
        f'<article class="od-card"><h3>{name}</h3><p>{size(profile_size(profile))}</p>'
        f'<div class="od-card-buttons">{buttons}</div></article>'
    )
