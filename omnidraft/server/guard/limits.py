"""How much a request may send, by where it goes: held while it comes in, before anything reads or keeps it. And how
requests end when their client leaves or the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ELSEWHERE = 16 << 10  # bytes a request's body may have, but for these
MOST = {
    "/v1/": 8 << 20,
    "/infill": 8 << 20,  # editors send other files along
    "/gradio_api/upload": 128 << 20,  # several files, each of which Gradio bounds
    "/gradio_api/": 16 << 20,  # what a page's event holds
}


class Limits:
    """ASGI middleware: a request that sends more is refused with 413 by whoever reads it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, _bounded(scope, receive) if scope["type"] == "http" else receive, send)


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """Raises HTTPException for a body that is, or says that it will be, too large."""
    allowed = next((count for prefix, count in MOST.items() if scope["path"].startswith(prefix)), ELSEWHERE)
    received = 0
    announced = Headers(scope=scope).get("content-length", "")

    async def receiving() -> Message:
        nonlocal received
        if announced.isdigit() and int(announced) > allowed:
            raise HTTPException(413, "The request is too large.")
        message = await receive()
        received += len(message.get("body", b""))
        if received > allowed:
            raise HTTPException(413, "The request is too large.")
        return message

    return receiving


# Ends what is still being sent when the server stops, so that stopping takes no time and leaves no traceback; a client
# that leaves before it has sent its request leaves none either. A page keeps streams open for as long as it is open
# itself. When the server ends, every request is cancelled where it is, and its response is closed as it should be.


log = logging.getLogger("omnidraft.server")
_GRADIO = "/gradio_api/"


class Ending:
    """ASGI middleware around everything else; `over` once the server ends, which `ended` hears first."""

    def __init__(self, app: ASGIApp, ended: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self.over = False
        self._ended = ended
        self._running = set[asyncio.Task[None]]()

    def end(self) -> None:
        self._ended()
        self.over = True
        for request in list(self._running):
            request.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        response, request = _Response(send), asyncio.current_task()
        assert request is not None
        self._running.add(request)
        try:
            with contextlib.suppress(ClientDisconnect):  # whoever left while sending expects no answer
                await self.app(scope, receive, response.send)
        except asyncio.CancelledError:
            if not self.over:
                raise
        except Exception as error:  # Gradio's, over what no page of ours sends; what pages do wrong is told elsewhere
            if not scope["path"].startswith(_GRADIO):
                raise
            log.warning("%s could not be answered: %s", scope["path"][:100], type(error).__name__)
            await response.end(400)
        finally:
            self._running.discard(request)
        if self.over:
            await response.end()


class _Response:
    """Knows how far a response has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._open = False

    async def send(self, message: Message) -> None:
        self._begun = True
        self._open = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def end(self, status: int = 503) -> None:
        """Close what was begun and not ended; what was not begun is refused."""
        if not self._begun:
            await self.send({"type": "http.response.start", "status": status, "headers": []})
        if self._open:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Server(uvicorn.Server):
    """Tells its requests when it ends. Its application is an `Ending`."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        assert isinstance(self.config.app, Ending)
        self.config.app.end()
        await super().shutdown(sockets)
