"""What all pages have around what they show: the side column with the name and the page list, which stands in a page's
HTML before Gradio draws it, at once, with the page scripts; colours and type; the theme a profile has chosen.

Gradio's own HTML is empty but for its settings. Knows the pages' addresses, nothing of what they show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import Request
from gradio.themes.utils import colors
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.errors import OmniDraftError
from omnidraft.server.guard.security import changing_headers

# What all pages share: the side column with the name and the page list. Knows no page's content.


# No event is a public API endpoint, and none covers what it changes with a spinner.
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
# Gradio passes over what happens while the same event is being handled. Values that change again: the newest is handled
# behind it, without what its event carried. Clicks on rows carry which row it was: each is handled at once.
LAST: dict[str, Any] = {**PRIVATE, "trigger_mode": "always_last"}
EACH: dict[str, Any] = {**PRIVATE, "trigger_mode": "multiple"}
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
SCRIPTS = ("frame.js", "page.js", "answers.js", "turns.js", "files.js", "composer.js", "addresses.js", "layers.js")


def script(name: str) -> str:
    """What the browser does where a component stands (`js_on_load`), from its file."""
    return (STATIC / name).read_text()


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
    scripts = "".join(f"<script>{script(name)}</script>" for name in SCRIPTS)
    style = f"<style>{(STATIC / 'frame.css').read_text()}</style>"
    return f'<meta name="color-scheme" content="light dark">{style}{scripts}'


# The session of the browser that an event of a page comes from.


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in, for an event of a page."""
    return session_of_request(sessions, request.request)


def by_session(sessions: Sessions, act: Callable[..., Any]) -> Callable[..., Any]:
    """An event of a page that is `act` of that session, with what the event brings behind it."""

    def handle(request: gr.Request, *values: Any) -> Any:
        return act(session_of(sessions, request), *values)

    return handle


STYLES = [STATIC / f"{name}.css" for name in ("style", "chat", "aside", "pages")]
SANS = ("ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")
COOKIE = "omnidraft_theme"  # what the page script paints from, before anything else is drawn
COOKIE_LASTS = "path=/;max-age=31536000;samesite=strict"


def _colour(name: str, shades: str) -> colors.Color:
    return colors.Color(*shades.split(), name=name)


PINE = _colour("pine", "#eef6f4 #d7ebe6 #b0d7ce #82bdb1 #539f92 #2f8276 #1d6a60 #18554e #15443f #123935 #08211f")
STONE = _colour("stone-warm", "#faf9f7 #f3f1ee #e6e3de #d3cfc8 #a8a39a #7a756d #5c5852 #45423d #2c2a27 #1f1d1b #161513")
# In light, and in dark where that differs.
COLOURS = {
    # Pages, blocks and text.
    "body_background_fill": ("*neutral_50", "*neutral_950"),
    "body_text_color": ("*neutral_900", "#e9e6e1"),
    "body_text_color_subdued": ("*neutral_600", "#a8a39a"),
    "background_fill_primary": ("white", "*neutral_900"),
    "background_fill_secondary": ("*neutral_100", "*neutral_800"),
    "border_color_primary": ("*neutral_200", "#383530"),
    "block_background_fill": ("transparent", "transparent"),
    "block_border_width": ("0px", "0px"),
    "block_shadow": ("none", "none"),
    "block_label_background_fill": ("transparent", "transparent"),
    "block_title_text_weight": ("500",),
    "block_title_text_size": ("*text_sm",),
    "block_info_text_size": ("*text_sm",),
    "block_info_text_color": ("*neutral_600", "*neutral_400"),
    "link_text_color": ("*primary_700", "*primary_300"),
    # What one types into, ticks or drags.
    "input_background_fill": ("white", "*neutral_900"),
    "input_border_color": ("*neutral_300", "#45423d"),
    "input_border_color_focus": ("*primary_500", "*primary_400"),
    "input_placeholder_color": ("*neutral_500", "#8f8a82"),
    "input_border_width": ("1px",),
    "input_shadow_focus": (
        "0 0 0 3px color-mix(in srgb, *primary_500 18%, transparent)",
        "0 0 0 3px color-mix(in srgb, *primary_400 22%, transparent)",
    ),
    "checkbox_border_color": ("#8a857c", "#7a756d"),
    "checkbox_border_color_hover": ("*primary_600", "*primary_400"),
    "checkbox_background_color_selected": ("*primary_600", "*primary_500"),
    "slider_color": ("*primary_600", "*primary_400"),
    # Buttons.
    "button_primary_background_fill": ("*primary_600", "*primary_500"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_600"),
    "button_primary_text_color": ("white", "white"),
    "button_secondary_background_fill": ("white", "*neutral_800"),
    "button_secondary_background_fill_hover": ("*neutral_100", "#383530"),
    "button_secondary_border_color": ("*neutral_300", "#45423d"),
    "button_border_width": ("1px",),
    "button_transform_hover": ("none",),
    "button_large_text_weight": ("500",),
    "button_medium_text_weight": ("500",),
    "button_small_text_weight": ("500",),
}


def theme() -> gr.themes.Base:
    """Quiet surfaces, one accent, thin lines."""
    base = gr.themes.Base(
        primary_hue=PINE,
        secondary_hue=PINE,
        neutral_hue=STONE,
        radius_size=gr.themes.sizes.radius_md,
        font=[gr.themes.Font(name) for name in SANS],
        font_mono=[gr.themes.Font(name) for name in MONO],
    )
    dark = {f"{name}_dark": of[1] for name, of in COLOURS.items() if len(of) > 1}
    return base.set(**{name: of[0] for name, of in COLOURS.items()}, **dark)


# Tells a browser the colours its profile has chosen, before it draws a page. The choice is kept with the profile, the
# page script paints from a cookie: whoever arrives with another browser, or with the cookie of another profile, gets
# the stored one along with the page. Knows nothing of what pages show.


UNSET = "system"  # without a cookie a page follows the system's colours


class ThemeCookie:
    """ASGI middleware: pages are answered with the profile's theme where the browser has another."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self.app = app
        self.sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and page_at(scope["path"]):
            send = await self._telling(Request(scope), send)
        await self.app(scope, receive, send)

    async def _telling(self, request: Request, send: Send) -> Send:
        try:
            session = await run_in_threadpool(session_of_request, self.sessions, request)
        except OmniDraftError:  # a profile that cannot be opened; the page's own events say why
            return send
        chosen = session.settings.theme
        if request.cookies.get(COOKIE, UNSET) == chosen:
            return send
        return changing_headers(send, lambda headers: headers.append("set-cookie", f"{COOKIE}={chosen};{COOKIE_LASTS}"))
