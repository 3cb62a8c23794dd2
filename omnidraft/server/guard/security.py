"""What every response and request is held to: a content policy, known host names, no calls from other sites.

Model text is untrusted: a Markdown image in an answer would make the browser fetch it, so the policy lets the page
load nothing but the app's own files. The host check stops DNS rebinding, the origin check stops other pages, those of
another port of this machine included, from posting here and from reading. Knows nothing of profiles or pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, NoReturn
from urllib.parse import urlsplit

import safehttpx
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.server import HOST

# Gradio starts from inline scripts and compiles HTML templates, so scripts need the two unsafe words; what matters
# is that nothing can be loaded from, or sent to, anywhere else.
POLICY = "; ".join(
    [
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "style-src 'self' 'unsafe-inline'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "worker-src 'self' blob:",
        "connect-src 'self' data: blob:",
        "object-src 'none'",
        "frame-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
HOSTS = (HOST, "localhost", "[::1]")  # the last for a browser at the other end of a tunnel
# What a browser says of a request that another page makes; its own word, no script can change it.
_ELSEWHERE = ("cross-site", "same-site")
API = ("/v1/", "/infill")


class Guard:
    """ASGI middleware: refuses unknown hosts and foreign origins, adds the headers to everything that leaves.

    origins: tells which pages of other addresses may use the API just now. They send no cookies.
    """

    def __init__(self, app: ASGIApp, origins: Callable[[], Collection[str]] = tuple) -> None:
        self.app = app
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        app = self._chosen(scope)
        await app(scope, receive, changing_headers(send, lambda headers: headers.update(HEADERS)))

    def _chosen(self, scope: Scope) -> ASGIApp:
        """What answers this request: the application, or a refusal."""
        headers = Headers(scope=scope)
        if _name(headers.get("host", "")) not in HOSTS:
            return PlainTextResponse("This address is not served here.", status_code=400)
        origin = headers.get("origin")
        foreign = origin is not None and not _same(origin, headers["host"])
        # A link that leads here comes from elsewhere too; only what a page does by itself is refused.
        fetched = headers.get("sec-fetch-site") in _ELSEWHERE and headers.get("sec-fetch-mode") != "navigate"
        if not (foreign or fetched):
            return self.app
        told = "Requests from other sites are refused."
        if scope["path"].startswith(API):
            if origin is not None and origin.lower() in {each.lower() for each in self.origins()}:
                return _across(self.app, origin)
            told += " To let a page use the API, add its address to the setting allowed_origins."
        return PlainTextResponse(told, status_code=403)


def _across(app: ASGIApp, origin: str) -> ASGIApp:
    """`app` for a page of another address, with the headers that let its browser ask and read."""
    return CORSMiddleware(
        app, [origin], ("GET", "POST"), ("*",), allow_private_network=True, expose_headers=("Retry-After",)
    )


_HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^\[\]:]*)(:\d*)?")


def _name(host: str) -> str:
    """The host without its port, lower case; an IPv6 address keeps its brackets; "" for what is no host."""
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else ""


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # it is no address
        return False


def changing_headers(send: Send, change: Callable[[MutableHeaders], None]) -> Send:
    """`send`, with the headers of the response changed on their way."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            change(MutableHeaders(scope=message))
        await send(message)

    return sending


# Keeps the server from fetching, or even looking up, what a request names. Gradio fetches a file that is given as an
# address, and streams one that is asked for as `/file=http...`. It does so through one library, which looks the name
# up first. Nothing here has a use for either.


class Refused(ValueError):
    """Something was to be fetched."""


async def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise Refused("Files from other addresses are not fetched.")


def refuse_fetching() -> None:
    """From now on; harmless when repeated."""
    safehttpx.get = _refuse
    safehttpx.async_validate_url = _refuse
