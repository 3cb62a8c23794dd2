"""The settings page: every setting with its help, checked and kept at once, and what the n-gram cache holds."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.llama.devices import gpu_offload
from omnidraft.errors import OmniDraftError
from omnidraft.format import count, percent, size
from omnidraft.settings.config import AppSettings, Setting, describe
from ui.common import field_events, fields
from ui.common.layers import LAYERS, fold
from ui.common.layout import PRIVATE, mobile_bar, side_head
from ui.common.notes import note
from ui.common.request import session_of
from ui.common.theme import COOKIE, COOKIE_LASTS
from ui.common.words import tip

GROUPS = [
    ("look", "Look"),
    ("draft", "Drafting and verification"),
    ("cache", "N-gram cache"),
    ("sampling", "Sampling of new conversations"),
    ("model", "How models are loaded"),
    ("learning", "Learning"),
]
HEADINGS = {  # those whose words are explained there
    "draft": f"Drafting and {tip('verification')}",
    "cache": tip("n-gram cache", "N-gram cache"),
}
ALSO = {"look": ["theme"], "model": ["templates", "unload_after"]}  # settings that are in no group of their own
ELSEWHERE = ("model.workers",)  # on the models page, where one sees who they are
TOP = 60
FIND = (
    '<input type="search" id="od-find" placeholder="Find a setting" aria-label="Find a setting">'
    '<p id="od-found" role="status"></p>'
)
NO_GPU = "This build of llama.cpp computes on the processor only, so there is nothing to set here."
THEME_JS = (
    f"(theme) => {{ document.cookie = '{COOKIE}=' + theme + ';{COOKIE_LASTS}'; window.odPaint?.(); return theme; }}"
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The page's components. fields: by the name of their setting."""

    said: gr.HTML
    fields: dict[str, fields.Component]
    cache: gr.HTML
    refresh: gr.Button
    clear: gr.Button
    sure: gr.Row
    yes: gr.Button
    no: gr.Button
    reload: gr.Button
    reset: gr.Button


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head("Settings")
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar()
            parts = _layout()
    _wire(sessions, page, parts)


def _layout() -> Parts:
    jumps = "".join(f'<a href="#od-group-{group}">{title}</a>' for group, title in GROUPS)
    gr.HTML(
        "<h1>Settings</h1><p>Kept as soon as you leave a field, for this profile. What a change needs to take effect "
        f"is said there and then.</p>{FIND}"
        f'<nav class="od-jumps" aria-label="Groups of settings">{jumps}</nav>',
        elem_classes="od-lead",
    )
    said = gr.HTML(elem_id="od-said")
    settings = {setting.name: setting for setting in describe(AppSettings)}
    made: dict[str, fields.Component] = {}
    more: dict[str, Any] = {}
    for group, title in GROUPS:
        with gr.Group(elem_id=f"od-group-{group}", elem_classes=["od-group", LAYERS]):
            gr.HTML(f"<h2>{HEADINGS.get(group, title)}</h2>")
            own = [name for name in settings if name.startswith(group + ".") and name not in ELSEWHERE]
            here = [settings[name] for name in (*ALSO.get(group, ()), *own)]
            made |= {one.name: _field(one) for one in here if not one.rule.expert}
            if experts := [one for one in here if one.rule.expert]:
                fold()
                made |= {one.name: _field(one) for one in experts}
            more |= _more(group)
    reset = gr.Button("Reset all settings", size="sm", variant="stop", elem_id="od-settings-reset", scale=0)
    return Parts(said=said, fields=made, reset=reset, **more)


def _field(setting: Setting) -> fields.Component:
    return fields.make(setting, NO_GPU if setting.name == "model.n_gpu_layers" and not gpu_offload() else "")


def _more(group: str) -> dict[str, Any]:
    """What stands below the fields of a group, by its names in `Parts`."""
    if group == "cache":
        cache = gr.HTML(elem_id="od-cache")
        with gr.Row(elem_classes="od-buttons"):
            refresh = gr.Button("Refresh", size="sm", elem_id="od-cache-refresh", scale=0)
            clear = gr.Button("Clear the cache", size="sm", variant="stop", elem_id="od-cache-clear", scale=0)
        with gr.Row(visible=False, elem_classes="od-buttons") as sure:
            gr.HTML("<p>Everything it learned in this family goes.</p>")
            yes = gr.Button("Clear", size="sm", variant="stop", elem_id="od-cache-yes", scale=0)
            no = gr.Button("Keep", size="sm", scale=0)
        return {"cache": cache, "refresh": refresh, "clear": clear, "sure": sure, "yes": yes, "no": no}
    if group == "model":
        return {"reload": gr.Button("Load the model again", size="sm", elem_id="od-reload", scale=0)}
    if group == "learning":
        gr.HTML('<p class="od-more">What came of it, and how to take it back: <a href="/learning">Learning</a>.</p>')
    return {}


def _wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    settings = {setting.name: setting for setting in describe(AppSettings)}

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return {**field_events.arrived(session, parts.fields), parts.cache: cache_html(session), parts.said: ""}

    def look(request: gr.Request) -> str:
        return cache_html(session_of(sessions, request))

    def clearing(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            session.change_cache(lambda ngrams: ngrams.clear())
            told = note("The cache was cleared.")
        except OmniDraftError as error:
            told = note(str(error), bad=True)
        return {parts.sure: gr.Row(visible=False), parts.cache: cache_html(session), parts.said: told}

    def reloading(request: gr.Request) -> str:
        session = session_of(sessions, request)
        try:
            return note(" ".join(["Loaded again.", *session.load(session.target_path())]))
        except OmniDraftError as error:
            return note(str(error), bad=True)

    def resetting(request: gr.Request) -> dict:
        try:
            told = note(session_of(sessions, request).reset_settings())
        except OmniDraftError as error:
            told = note(str(error), bad=True)
        return {**arrive(request), parts.said: told}

    everything = [*parts.fields.values(), parts.cache, parts.said]
    parts.reset.click(resetting, None, everything, **PRIVATE)
    page.load(arrive, None, everything, **PRIVATE)
    for name, component in parts.fields.items():
        js = THEME_JS if name == "theme" else None
        after = lambda session: {parts.cache: cache_html(session)}  # noqa: E731
        field_events.keep(sessions, settings[name], component, parts.said, also=[parts.cache], after=after, js=js)
    parts.refresh.click(look, None, [parts.cache], **PRIVATE)
    parts.clear.click(lambda: gr.Row(visible=True), None, [parts.sure], **PRIVATE)
    parts.no.click(lambda: gr.Row(visible=False), None, [parts.sure], **PRIVATE)
    parts.yes.click(clearing, None, [parts.sure, parts.cache, parts.said], **PRIVATE)
    parts.reload.click(reloading, None, [parts.said], **PRIVATE)


def cache_html(session: Session) -> str:
    """What the n-gram cache holds and how it does."""
    ngrams = session.assistant.loaded.cache
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
