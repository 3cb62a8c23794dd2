"""What a page's HTML holds before Gradio draws it: the page scripts, and the frame with its name and links, at once.

Gradio's own HTML is empty but for its settings. Knows the pages' addresses, nothing of what they show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.server.guard.auth import session_of_request

# What all pages share: the side column with the name and the page list. Knows no page's content.


# No event is a public API endpoint, and none covers what it changes with a spinner.
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
# Gradio passes over what happens while the same event is being handled. Values that change again: the newest is handled
# behind it, without what its event carried. Clicks on rows carry which row it was: each is handled at once.
LAST: dict[str, Any] = {**PRIVATE, "trigger_mode": "always_last"}
EACH: dict[str, Any] = {**PRIVATE, "trigger_mode": "multiple"}
PAGES = [
    ("Chat", ""),
    ("Models", "models"),
    ("Drift lab", "drift-lab"),
    ("Learning", "learning"),
    ("Settings", "settings"),
    ("Profiles", "profiles"),
]
_CHAT = re.compile(r"/c/([\w-]{1,80})/?")
_ICONS = {
    "Chat": "M4 5h16v11H9l-4 3.5V16H4z",
    "Models": "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
    "Drift lab": "M3 17c4 0 4-10 9-10s5 10 9 10M3 21h18",
    "Learning": "M4 19V5M4 19h16M8 15l4-4 3 3 5-6",
    "Settings": "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6",
    "Profiles": "M12 11a4 4 0 100-8 4 4 0 000 8zM4 21c0-5 4-7 8-7s8 2 8 7",
}


def address(chat: str) -> str:
    """Where a conversation is."""
    return f"/c/{chat}"


def page_at(path: str) -> str | None:
    """The name of the page at an address; None if there is none. Every conversation is on the first."""
    if _CHAT.fullmatch(path):
        return PAGES[0][0]
    return next((name for name, place in PAGES if path.strip("/") == place), None)


def chat_at(path: str | None) -> str | None:
    """The conversation at an address, which may be gone; None where the address names none, or a client tells none."""
    found = _CHAT.fullmatch(path or "")
    return found[1] if found else None


def side_head(current: str) -> gr.HTML:
    """Name and navigation at the top of the side column; `current` is the page being shown."""
    return gr.HTML(
        f"{navigation(current)}"
        '<label class="od-who" hidden><span>Profile</span><select aria-label="Profile"></select></label>',
        elem_id="od-head",
    )


@contextmanager
def page_column(name: str) -> Iterator[None]:
    """Inside stands what the page of that name shows, beside the side column."""
    with gr.Row(elem_id="od-shell"):
        with gr.Column(elem_id="od-side", scale=0, min_width=0):
            side_head(name)
        with gr.Column(elem_id="od-page", scale=1, min_width=0):
            mobile_bar()
            yield


def navigation(current: str = "") -> str:
    """The name and the links to all pages."""
    links = "".join(_link(name, path, name == current) for name, path in PAGES)
    return f'<div class="od-brand">OmniDraft</div><nav class="od-nav" aria-label="Pages">{links}</nav>'


def mobile_bar(title: str = "") -> gr.HTML:
    """Narrow screens: a bar with the button that opens the side column. title: of a page that has no heading seen."""
    heading = f'<h1 class="od-hidden">{escape(title)}</h1>' if title else ""
    return gr.HTML(
        f'{heading}<div class="od-mobilebar"><button type="button" data-od="side" aria-label="Open the menu" '
        'aria-expanded="false"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 7h16M4 12h16M4 17h16"/></svg>'
        '</button><span class="od-brand">OmniDraft</span></div>',
        elem_id="od-mobile",
    )


def _link(name: str, path: str, current: bool) -> str:
    mark = ' aria-current="page"' if current else ""
    icon = f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{_ICONS[name]}"/></svg>'
    return f'<a href="/{path}"{mark}>{icon}<span>{name}</span></a>'


STATIC = Path(__file__).parents[1] / "static"
SCRIPTS = ("frame.js", "page.js", "answers.js", "turns.js", "composer.js", "addresses.js", "layers.js")


class Frame:
    """ASGI middleware in front of Gradio: its HTML of a page goes out with the frame in it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = page_at(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if page is not None and chat_at(scope["path"]) is not None:
            scope = {**scope, "path": "/", "raw_path": b"/"}  # one page has them all; its script says which it is
        await self.app(scope, receive, send if page is None else _framing(send, page))


def _framing(send: Send, page: str) -> Send:
    start: Message | None = None
    held = b""

    async def sending(message: Message) -> None:
        nonlocal start, held
        if message["type"] == "http.response.start" and _is_html(message):
            start = message
        elif start is None:
            await send(message)
        else:
            held += message.get("body", b"")
            if not message.get("more_body"):
                made = framed(held.decode(), page).encode()
                MutableHeaders(scope=start)["content-length"] = str(len(made))
                await send(start)
                await send({"type": "http.response.body", "body": made})

    return sending


def _is_html(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return message["status"] == 200 and kind.startswith("text/html")


def framed(html: str, page: str) -> str:
    """Gradio's HTML with what belongs to `page`; links in it start at the root, whatever the page's address is."""
    html = html.replace("<html", '<html class="od-arriving"', 1).replace('<base href="./" />', '<base href="/" />', 1)
    html = html.replace("<head>", f"<head>{_head()}", 1)
    body = html.index(">", html.index("<body")) + 1
    return f'{html[:body]}<div id="od-frame"><div>{navigation(page)}</div></div>{html[body:]}'


@cache
def _head() -> str:
    scripts = "".join(f"<script>{(STATIC / name).read_text()}</script>" for name in SCRIPTS)
    style = f"<style>{(STATIC / 'frame.css').read_text()}</style>"
    return f'<meta name="color-scheme" content="light dark">{style}{scripts}'


# The session of the browser that an event of a page comes from.


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in, for an event of a page."""
    return session_of_request(sessions, request.request)
