"""The settings page: every setting with its help, checked and kept at once, and what the n-gram cache holds."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from omnidraft.backends.llama_runtime import gpu_offload
from omnidraft.config import AppSettings, Setting, describe, value_of
from omnidraft.errors import OmniDraftError
from ui import fields
from ui.chat_view import note
from ui.format import count, percent, size
from ui.layout import mobile_bar, side_head
from ui.request import session_of
from ui.session import Session, Sessions

PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
GROUPS = [
    ("draft", "Drafting and verification"),
    ("cache", "N-gram cache"),
    ("sampling", "Sampling of new conversations"),
    ("model", "How models are loaded"),
    ("learning", "Learning"),
]
TOP = 60
# The page script paints from this cookie before anything else is drawn.
THEME_JS = "(theme) => { document.cookie = 'omnidraft_theme=' + theme + ';path=/;max-age=31536000;samesite=strict'; \
window.odPaint?.(); return theme; }"


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    settings = {setting.name: setting for setting in describe(AppSettings)}
    made: dict[str, fields.Component] = {}
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Settings")
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar("Settings")
            gr.HTML(
                "<h1>Settings</h1><p>Kept as soon as you leave a field, for this profile.</p>", elem_classes="od-lead"
            )
            said = gr.HTML(elem_id="od-said")
            made["theme"] = fields.make(settings["theme"])
            for group, title in GROUPS:
                with gr.Group(elem_id=f"od-group-{group}", elem_classes="od-group"):
                    gr.HTML(f"<h2>{title}</h2>")
                    for name in (n for n in settings if n.startswith(group + ".")):
                        usable = name != "model.n_gpu_layers" or gpu_offload()
                        made[name] = fields.make(settings[name], usable)
                    if group == "cache":
                        cache = gr.HTML(elem_id="od-cache")
                        with gr.Row(elem_classes="od-buttons"):
                            refresh = gr.Button("Refresh", size="sm", elem_id="od-cache-refresh", scale=0)
                            clear = gr.Button(
                                "Clear the cache", size="sm", variant="stop", elem_id="od-cache-clear", scale=0
                            )
                        sure = gr.Row(visible=False, elem_classes="od-buttons")
                        with sure:
                            gr.HTML("Everything it learned in this family goes.")
                            yes = gr.Button("Clear", size="sm", variant="stop", elem_id="od-cache-yes", scale=0)
                            no = gr.Button("Keep", size="sm", scale=0)
                    if group == "model":
                        reload = gr.Button("Load the model again", size="sm", elem_id="od-reload", scale=0)

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        values = {made[n]: fields.shown(settings[n], value_of(session.settings, n)) for n in made}
        return {**values, cache: cache_html(session), said: ""}

    def look(request: gr.Request) -> str:
        return cache_html(session_of(sessions, request))

    def clearing(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            session.change_cache(lambda ngrams: ngrams.clear())
            told = note("The cache was cleared.")
        except OmniDraftError as error:
            told = note(str(error), bad=True)
        return {sure: gr.Row(visible=False), cache: cache_html(session), said: told}

    def reloading(request: gr.Request) -> str:
        session = session_of(sessions, request)
        try:
            return note(" ".join(["Loaded again.", *session.load(session.target_path())]))
        except OmniDraftError as error:
            return note(str(error), bad=True)

    page.load(arrive, None, [*made.values(), cache, said], **PRIVATE)
    for name, component in made.items():
        _keep(sessions, settings[name], component, said, cache)
    refresh.click(look, None, [cache], **PRIVATE)
    clear.click(lambda: gr.Row(visible=True), None, [sure], **PRIVATE)
    no.click(lambda: gr.Row(visible=False), None, [sure], **PRIVATE)
    yes.click(clearing, None, [sure, cache, said], **PRIVATE)
    reload.click(reloading, None, [said], **PRIVATE)


def _keep(sessions: Sessions, setting: Setting, component: fields.Component, said: gr.HTML, cache: gr.HTML) -> None:
    """Check and keep one field when it is left (texts) or changed (the rest)."""

    def keep(value: Any, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        before = value_of(session.settings, setting.name)
        try:
            wanted = fields.parsed(setting, value)
            if wanted == before:
                return {said: ""}
            told = session.change(setting.name, wanted)
        except OmniDraftError as error:
            return {said: note(str(error), bad=True), component: fields.shown(setting, before)}
        return {said: note(f"{fields.title(setting)}: {told}"), cache: cache_html(session)}

    outputs = [said, component, cache]
    if isinstance(component, gr.Textbox):
        gr.on([component.blur, component.submit], keep, [component], outputs, **PRIVATE)
    else:
        component.input(keep, [component], outputs, js=THEME_JS if setting.name == "theme" else None, **PRIVATE)


def cache_html(session: Session) -> str:
    """What the n-gram cache holds and how it does."""
    ngrams = session.assistant.cache
    if ngrams is None:
        return '<p class="od-none">The cache of a family shows here once a model of it is loaded.</p>'
    s = ngrams.stats()
    facts = [
        ("n-grams", count(s["entries"])),
        ("of them seeded", count(s["seeded"])),
        ("size", size(s["bytes"])),
        ("hit rate", percent(s["hit_rate"])),
        ("evicted", count(s["evictions"])),
    ]
    cells = "".join(f"<div><b>{value}</b><small>{name}</small></div>" for name, value in facts)
    rows = "".join(_ngram(text, hits) for text, hits, _ in ngrams.top(TOP) if hits)
    table = f"<h3>Most used</h3><div class='od-ngrams'>{rows}</div>" if rows else ""
    return f'<div class="od-facts">{cells}</div>{table}'


def _ngram(text: bytes, hits: int) -> str:
    shown = escape(text.decode("utf-8", "replace").replace("\n", "↵")).replace(" ", "&nbsp;")
    return f"<span><code>{shown}</code>{count(hits)}</span>"
