"""Sign-in for `--auth-file`: its page, its cookie, and the gate in front of everything.

With accounts the name that signed in is the profile, and no request without a session reaches a page or its data.
"""

from __future__ import annotations

import contextlib
import json
from html import escape
from urllib.parse import parse_qs, unquote

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import SettingsError
from omnidraft.profiles.accounts import DAYS, Accounts, TooManyTries
from omnidraft.server.guard.security import changing_headers

COOKIE = "omnidraft_session"
_OPEN = ("/login", "/favicon.ico")
_EVENTS = "/gradio_api/"
_HEARTBEAT = f"{_EVENTS}heartbeat/"


class Gate:
    """ASGI middleware: who is signed in goes into the scope as `omnidraft_user`; others see the sign-in page only."""

    def __init__(self, app: ASGIApp, accounts: Accounts) -> None:
        self.app = app
        self.accounts = accounts
        self._owners: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            user = self.accounts.user(request.cookies.get(COOKIE)) or await self._by_key(request)
        except TooManyTries as error:
            await PlainTextResponse(str(error), 429, _later(error))(scope, receive, send)
            return
        if user is None and scope["path"] not in _OPEN:
            wants_page = "text/html" in request.headers.get("accept", "")
            refusal = RedirectResponse("/login", 303) if wants_page else PlainTextResponse("Sign in first.", 401)
            await refusal(scope, receive, send)
            return
        if user is not None:
            named, receive = await _pages(scope, receive)
            if not all(self._owns(name, user) for name in named):
                await PlainTextResponse("This page belongs to someone else.", 403)(scope, receive, send)
                return
        scope["omnidraft_user"] = user
        await self.app(scope, receive, changing_headers(send, _unkept))

    async def _by_key(self, request: Request) -> str | None:
        """The API takes `name:password` as its key."""
        if not request.url.path.startswith("/v1/"):
            return None
        name, _, password = request.headers.get("authorization", "").removeprefix("Bearer ").partition(":")
        right = bool(name) and await run_in_threadpool(self.accounts.verify, name, password, _address(request))
        return name if right else None

    def _owns(self, name: str, user: str) -> bool:
        """An open page, its state and its events belong to who used it first, should its random name ever leak."""
        if len(self._owners) > 100_000:
            self._owners.clear()
        return self._owners.setdefault(name, user) == user


def _unkept(headers: MutableHeaders) -> None:
    """Pages are not kept by the browser: behind a sign-out, Back must show none of them."""
    if headers.get("content-type", "").startswith("text/html"):
        headers["cache-control"] = "no-store"


async def _pages(scope: Scope, receive: Receive) -> tuple[list[str], Receive]:
    """The names of open pages that a request speaks of, and what to receive the request from afterwards."""
    if not scope["path"].startswith(_EVENTS):
        return [], receive
    named = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_hash", [])
    if scope["path"].startswith(_HEARTBEAT):
        named.append(scope["path"].removeprefix(_HEARTBEAT).strip("/"))
    if scope.get("method") == "POST" and not scope["path"].startswith(f"{_EVENTS}upload"):
        body, receive = await _read_ahead(receive)
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(body)
            named.append(found.get("session_hash") if isinstance(found, dict) else None)
    return [name for name in named if name and isinstance(name, str)], receive


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive]:
    """A request's body, and a `receive` that hands it out once more."""
    read: list[Message] = []
    while not read or (read[-1]["type"] == "http.request" and read[-1].get("more_body")):
        read.append(await receive())
    again = iter(read)

    async def replay() -> Message:
        message = next(again, None)
        return await receive() if message is None else message

    return b"".join(message.get("body", b"") for message in read), replay


def add_routes(app: FastAPI, accounts: Accounts) -> None:
    @app.get("/login")
    def page() -> HTMLResponse:
        return HTMLResponse(_page(""))

    @app.post("/login")
    def sign_in(request: Request, name: str = Form(""), password: str = Form("")) -> Response:
        try:
            right = accounts.verify(name, password, _address(request))
        except TooManyTries as error:
            return HTMLResponse(_page(str(error)), 429, _later(error))
        if not right:
            return HTMLResponse(_page("The name or the password is wrong."), 401)
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, accounts.sign_in(name), max_age=DAYS * 86400, httponly=True, samesite="strict",
                            secure=secure)  # fmt: skip
        return response

    @app.post("/logout")
    def sign_out(request: Request) -> Response:
        accounts.sign_out(request.cookies.get(COOKIE))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE)
        return response


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _later(error: TooManyTries) -> dict[str, str]:
    return {"Retry-After": str(error.seconds)}


def _page(error: str) -> str:
    said = f'<p role="alert">{escape(error)}</p>' if error else ""
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>OmniDraft</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<style>
body {{ font: 16px/1.5 ui-sans-serif, system-ui, sans-serif; margin: 0; min-height: 100dvh; display: grid;
  place-items: center; background: light-dark(#faf9f7, #161513); color: light-dark(#1f1d1b, #e9e6e1); }}
form {{ width: min(300px, 86vw); display: grid; gap: 14px; }}
h1 {{ font-size: 21px; margin: 0 0 4px; letter-spacing: -.015em; }}
label {{ display: grid; gap: 4px; font-size: 14px; }}
input {{ font: inherit; padding: 8px 10px; border-radius: 8px; border: 1px solid light-dark(#d3cfc8, #45423d);
  background: light-dark(#fff, #1f1d1b); color: inherit; }}
button {{ font: inherit; padding: 9px; border: 0; border-radius: 8px; background: #1d6a60; color: #fff; }}
p {{ margin: 0; color: light-dark(#a03524, #ee9c8c); font-size: 14px; }}
</style><form method="post" action="/login"><h1>OmniDraft</h1>{said}
<label>Name<input name="name" autocomplete="username" autofocus required></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button></form></html>"""


# Which profile a request belongs to. The only place that reads it, so one rule decides for all pages and the API. With
# accounts it is the name that signed in. Without, it is the profile this browser picked, if there is such a one.


PROFILE_COOKIE = "omnidraft_profile"


def session_of_request(sessions: Sessions, request: Request) -> Session:
    """The session of the profile that a request belongs to."""
    if sessions.accounts is not None:
        # The gate let nobody through without a name; anything else is a defect and must not fall back to a profile.
        return sessions.get(request.scope["omnidraft_user"])
    picked = unquote(request.cookies.get(PROFILE_COOKIE, ""))
    return sessions.get(picked if picked and _exists(sessions, picked) else None)


def _exists(sessions: Sessions, name: str) -> bool:
    try:
        return sessions.home.profile(name, create=False).root.is_dir()
    except SettingsError:
        return False
