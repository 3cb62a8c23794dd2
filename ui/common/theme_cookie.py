"""Tells a browser the colours its profile has chosen, before it draws a page.

The choice is kept with the profile, the page script paints from a cookie: whoever arrives with another browser, or
with the cookie of another profile, gets the stored one along with the page. Knows nothing of what pages show.
"""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError
from omnidraft.server.guard.security import changing_headers
from omnidraft.server.request_session import session_of_request
from ui.common.layout import page_at
from ui.common.theme import COOKIE, COOKIE_LASTS

UNSET = "system"  # without a cookie a page follows the system's colours


class ThemeCookie:
    """ASGI middleware, behind the gate: pages are answered with the profile's theme where the browser has another."""

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
