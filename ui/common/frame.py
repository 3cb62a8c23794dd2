"""What a page's HTML holds before Gradio draws it: the page scripts, and the frame with its name and links, at once.

Gradio's own HTML is empty but for its settings. Knows the pages' addresses, nothing of what they show.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ui.common.layout import chat_at, navigation, page_at

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
