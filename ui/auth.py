"""Sign-in for `--auth-file`: accounts with scrypt hashes, sessions in memory, and the gate in front of everything.

With accounts the name that signed in is the profile, and no request without a session reaches a page or its data.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnidraft.errors import SettingsError, StorageError
from omnidraft.files import write_atomically
from omnidraft.paths import profile_name

COOKIE = "omnidraft_session"
DAYS = 30
_COST = {"n": 2**14, "r": 8, "p": 1}
_OPEN = ("/login", "/favicon.ico")
_EVENTS = "/gradio_api/"
_HEARTBEAT = f"{_EVENTS}heartbeat/"


class Accounts:
    """Names and password hashes in a text file, one `name:salt:hash` a line (base64, scrypt)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hashes = _read(path)
        self._sessions: dict[str, tuple[str, float]] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def verify(self, name: str, password: str) -> bool:
        """Whether the password is right. Unknown names take as long as known ones; failures make the next wait."""
        if self._locked(name):
            return False
        salt, wanted = self._hashes.get(name, (b"\0" * 16, b""))
        right = hmac.compare_digest(_hash(password, salt), wanted)
        with self._lock:
            if right:
                self._failures.pop(name, None)
            else:
                count = self._failures.get(name, (0, 0.0))[0] + 1
                self._failures[name] = (count, time.monotonic() + min(2 ** (count - 5), 300) if count >= 5 else 0.0)
        return right

    def sign_in(self, name: str) -> str:
        """A new session's token."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[token] = (name, time.time() + DAYS * 86400)
        return token

    def user(self, token: str | None) -> str | None:
        with self._lock:
            name, until = self._sessions.get(token or "", ("", 0.0))
        return name if until > time.time() else None

    def sign_out(self, token: str | None) -> None:
        with self._lock:
            self._sessions.pop(token or "", None)

    def _locked(self, name: str) -> bool:
        with self._lock:
            return self._failures.get(name, (0, 0.0))[1] > time.monotonic()


def add_account(path: Path, name: str, password: str) -> None:
    """Add or change one account. SettingsError for a refused name or a password shorter than 8 characters."""
    name = profile_name(name)
    if len(password) < 8:
        raise SettingsError("A password needs at least 8 characters.")
    hashes = _read(path) if path.exists() else {}
    salt = os.urandom(16)
    hashes[name] = (salt, _hash(password, salt))
    lines = [f"{n}:{_text(s)}:{_text(h)}\n" for n, (s, h) in sorted(hashes.items())]
    write_atomically(path, "".join(lines).encode())


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
        user = self.accounts.user(request.cookies.get(COOKIE)) or await self._by_key(request)
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
        await self.app(scope, receive, send)

    async def _by_key(self, request: Request) -> str | None:
        """The API takes `name:password` as its key."""
        if not request.url.path.startswith("/v1/"):
            return None
        name, _, password = request.headers.get("authorization", "").removeprefix("Bearer ").partition(":")
        right = bool(name) and await run_in_threadpool(self.accounts.verify, name, password)
        return name if right else None

    def _owns(self, name: str, user: str) -> bool:
        """An open page, its state and its events belong to who used it first, should its random name ever leak."""
        if len(self._owners) > 100_000:
            self._owners.clear()
        return self._owners.setdefault(name, user) == user


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
        if not accounts.verify(name, password):
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


def _read(path: Path) -> dict[str, tuple[bytes, bytes]]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"The file of accounts {path} cannot be read: {error}.") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, salt, digest = line.split(":")
            found[profile_name(name)] = (base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
        except ValueError:
            raise StorageError(
                f"Line {number} of {path} is not `name:salt:hash`; add accounts with --add-user."
            ) from None
    return found


def _hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, maxmem=64 << 20, **_COST)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
