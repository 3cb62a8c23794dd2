"""The settings page: every setting with its help, checked and kept at once, and what the n-gram cache holds."""

from __future__ import annotations

from html import escape

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.format import count, percent, size
from ui.common import fields
from ui.common.events import Events
from ui.common.fields import LAYERS, fold
from ui.common.frame import SMALL, page_column
from ui.common.notes import tip
from ui.common.theme import COOKIE, COOKIE_LASTS
from ui.gradio_ways import PRIVATE

GROUPS = [
    ("look", "Look"),
    ("draft", "Drafting"),
    ("cache", "N-gram cache"),
    ("sampling", "Sampling of new conversations"),
    ("model", "How models are loaded"),
    ("learning", "Learning"),
    ("api", "The API"),
]
HEADINGS = {  # those whose words are explained there
    "cache": tip("n-gram cache", "N-gram cache"),
}
# Settings that are in no group of their own.
ALSO = {"look": ["theme"], "model": ["templates", "unload_after"], "api": ["allowed_origins"]}
ELSEWHERE = ("model.workers",)  # on the models page, where one sees who they are
TOP = 60
FIND = (
    '<input type="search" id="od-find" placeholder="Find a setting" aria-label="Find a setting">'
    '<p id="od-found" role="status"></p>'
)
THEME_JS = (
    f"(theme) => {{ document.cookie = '{COOKIE}=' + theme + ';{COOKIE_LASTS}'; window.odPaint?.(); return theme; }}"
)


class Parts:
    """The page's components, made where the layout stands. fields: by the name of their setting."""

    def __init__(self) -> None:
        jumps = "".join(f'<a href="#od-group-{group}">{title}</a>' for group, title in GROUPS)
        gr.HTML(
            "<h1>Settings</h1><p>Kept as soon as you leave a field, for this profile. What a change needs to take "
            f"effect is said there and then.</p>{FIND}"
            f'<nav class="od-jumps" aria-label="Groups of settings">{jumps}</nav>',
            elem_classes="od-lead",
        )
        self.said = gr.HTML(elem_id="od-said")
        self.fields: dict[str, fields.Component] = {}
        for group, title in GROUPS:
            with gr.Group(elem_id=f"od-group-{group}", elem_classes=["od-group", LAYERS]):
                gr.HTML(f"<h2>{HEADINGS.get(group, title)}</h2>")
                own = [name for name in fields.SETTINGS if name.startswith(group + ".") and name not in ELSEWHERE]
                here = (*ALSO.get(group, ()), *own)
                experts = [name for name in here if fields.SETTINGS[name].rule.expert]
                self.fields |= {name: fields.make(name) for name in here if name not in experts}
                if experts:
                    fold()
                    self.fields |= {name: fields.make(name) for name in experts}
                self._more(group)
        self.reset = gr.Button("Reset all settings", variant="stop", elem_id="od-settings-reset", **SMALL)

    def _more(self, group: str) -> None:
        """What stands below the fields of a group."""
        if group == "cache":
            self.cache = gr.HTML(elem_id="od-cache")
            with gr.Row(elem_classes="od-buttons"):
                self.refresh = gr.Button("Refresh", elem_id="od-cache-refresh", **SMALL)
                self.clear = gr.Button("Clear the cache", variant="stop", elem_id="od-cache-clear", **SMALL)
            with gr.Row(visible=False, elem_classes="od-buttons") as self.sure:
                gr.HTML("<p>Everything it learned in this family goes.</p>")
                self.yes = gr.Button("Clear", variant="stop", elem_id="od-cache-yes", **SMALL)
                self.no = gr.Button("Keep", **SMALL)
        elif group == "model":
            self.reload = gr.Button("Load the model again", elem_id="od-reload", **SMALL)
        elif group == "learning":
            told = "What came of it, and how to take it back"
            gr.HTML(f'<p class="od-more">{told}: <a href="/learning">Learning</a>.</p>')


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Settings"):
        parts = Parts()
    events = Events(sessions, parts.said)
    everything = [*parts.fields.values(), parts.cache]

    def held(session: Session) -> dict:
        return {parts.cache: cache_html(session)}

    def shown(session: Session) -> dict:
        return {**fields.arrived(session, parts.fields), **held(session)}

    def after(session: Session) -> dict:
        """The cache, and its capacity: that changes with its unit."""
        name = "cache.capacity"
        capacity = fields.shown(fields.SETTINGS[name], session.settings.cache.capacity)
        return {**held(session), parts.fields[name]: capacity}

    def cleared(session: Session) -> dict:
        return {parts.sure: gr.Row(visible=False), **held(session)}

    events.on(page.load, lambda session: "", everything, after=shown)
    events.on(parts.reset.click, Session.reset_settings, everything, after=shown)
    events.on(parts.refresh.click, held, [parts.cache])
    events.on(parts.yes.click, Session.clear_cache, [parts.sure, parts.cache], after=cleared)
    events.on(parts.reload.click, lambda s: " ".join(["Loaded again.", *s.load(s.target_path())]))
    parts.clear.click(lambda: gr.Row(visible=True), None, [parts.sure], **PRIVATE)
    parts.no.click(lambda: gr.Row(visible=False), None, [parts.sure], **PRIVATE)
    also = [parts.cache, parts.fields["cache.capacity"]]
    fields.keep(events, parts.fields, also=also, after=after, scripts={"theme": THEME_JS})


def cache_html(session: Session) -> str:
    """What the n-gram cache holds and how it does."""
    ngrams = session.assistant.loaded.cache
    if ngrams is None:
        return '<p class="od-none">The cache of a family shows here once a model of it is loaded.</p>'
    s = ngrams.stats()
    counted, room = s["unit"] == "entries", f" of {count(s['capacity'])}"
    facts = [
        ("n-grams learned", count(s["entries"]) + (room if counted else "")),
        ("size", size(s["bytes"]) + ("" if counted else f"{room} MB")),
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
