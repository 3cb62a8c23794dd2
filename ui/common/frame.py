"""What all pages have around what they show: the side column with the name and the page list, which stands in a page's
HTML before Gradio draws it, at once, with the page scripts. Knows the pages' addresses, nothing of what they show.
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
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.errors import OmniDraftError
from omnidraft.server.guard.security import changing_headers
from ui.common.theme import COOKIE, COOKIE_LASTS, UNSET
from ui.gradio_ways import changing_html, with_more

# A button as large as its word; a field whose label only screen readers say.
SMALL: dict[str, Any] = {"size": "sm", "scale": 0}
BARE: dict[str, Any] = {"show_label": False, "container": False}
PAGES = {  # where each is, and its icon
    "Chat": ("", "M4 5h16v11H9l-4 3.5V16H4z"),
    "Models": ("models", "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9"),
    "Drift lab": ("drift-lab", "M3 17c4 0 4-10 9-10s5 10 9 10M3 21h18"),
    "Learning": ("learning", "M4 19V5M4 19h16M8 15l4-4 3 3 5-6"),
    "Settings": ("settings", "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6"),
    "Profiles": ("profiles", "M12 11a4 4 0 100-8 4 4 0 000 8zM4 21c0-5 4-7 8-7s8 2 8 7"),
}
_CHAT = re.compile(r"/c/([\w-]{1,80})/?")


def address(chat: str) -> str:
    """Where a conversation is."""
    return f"/c/{chat}"


def page_at(path: str) -> str | None:
    """The name of the page at an address; None if there is none. Every conversation is on the first."""
    if _CHAT.fullmatch(path):
        return "Chat"
    return next((name for name, (place, _) in PAGES.items() if path.strip("/") == place), None)


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
    links = "".join(_link(name, path, icon, name == current) for name, (path, icon) in PAGES.items())
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


def _link(name: str, path: str, icon: str, current: bool) -> str:
    mark = ' aria-current="page"' if current else ""
    drawn = f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{icon}"/></svg>'
    return f'<a href="/{path}"{mark}>{drawn}<span>{name}</span></a>'


STATIC = Path(__file__).parents[1] / "static"
STYLES = [STATIC / f"{name}.css" for name in ("style", "chat", "aside", "pages")]
SCRIPTS = ("frame.js", "page.js", "answers.js", "turns.js", "files.js", "composer.js", "addresses.js", "layers.js")


def script(name: str) -> str:
    """What the browser does where a component stands (`js_on_load`), from its file."""
    return (STATIC / name).read_text()


class Frame:
    """ASGI middleware in front of Gradio: its HTML of a page goes out with the frame in it, and with the profile's
    theme where the browser has another: it is another browser, or has the cookie of another profile."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self.app = app
        self.sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = page_at(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if page is not None:
            if cookie := await run_in_threadpool(self._theme, Request(scope)):
                send = changing_headers(send, lambda headers: headers.append("set-cookie", cookie))
            send = changing_html(send, lambda html: framed(html, page))
            if chat_at(scope["path"]) is not None:
                scope = {**scope, "path": "/", "raw_path": b"/"}  # one page has them all; its script says which it is
        await self.app(scope, receive, send)

    def _theme(self, request: Request) -> str:
        """The cookie that tells it; "" where the browser has that, or the profile cannot be opened, which the page's
        own events tell."""
        try:
            chosen = session_of_request(self.sessions, request).settings.theme
        except OmniDraftError:
            return ""
        return f"{COOKIE}={chosen};{COOKIE_LASTS}" if request.cookies.get(COOKIE, UNSET) != chosen else ""


def framed(html: str, page: str) -> str:
    """Gradio's HTML of a page with its frame."""
    return with_more(html, _head(), f'<div id="od-frame"><div>{navigation(page)}</div></div>', "od-arriving")


@cache
def _head() -> str:
    scripts = "".join(f"<script>{script(name)}</script>" for name in SCRIPTS)
    style = f"<style>{(STATIC / 'frame.css').read_text()}</style>"
    return f'<meta name="color-scheme" content="light dark">{style}{scripts}'
