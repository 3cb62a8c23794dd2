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
# itself. When the server ends, every request is told that its client went away, which is what each of them waits for,
# and its response is closed as it should be.


log = logging.getLogger("omnidraft.server")
_GRADIO = "/gradio_api/"
GONE: Message = {"type": "http.disconnect"}


class Ending:
    """ASGI middleware around everything else; `over` is set when the server ends, which `ended` hears first."""

    def __init__(self, app: ASGIApp, ended: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self.over = asyncio.Event()
        self._ended = ended

    def end(self) -> None:
        self._ended()
        self.over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, response = _Request(receive, self.over), _Response(send)
        try:
            with contextlib.suppress(ClientDisconnect):  # whoever left while sending expects no answer
                await self.app(scope, request.receive, response.send)
        except asyncio.CancelledError:  # it took longer than a server that ends waits
            if not self.over.is_set():
                raise
        except Exception as error:  # Gradio's, over what no page of ours sends; what pages do wrong is told elsewhere
            if not scope["path"].startswith(_GRADIO):
                raise
            log.warning("%s could not be answered: %s", scope["path"][:100], type(error).__name__)
            await response.end(400)
        finally:
            request.close()
        if self.over.is_set():
            await response.end()


class _Request:
    """What a client sends; once all of its request has come, whether it is still there.

    Starlette's `is_disconnected` takes only what is there at once: it gives up where `receive` would have to wait. So
    from the end of the request on one task waits, whoever asks in between and gives up.
    """

    def __init__(self, receive: Receive, over: asyncio.Event) -> None:
        self._receive = receive
        self._over = over
        self._whole = False
        self._leaving: asyncio.Future[None] | None = None

    async def receive(self) -> Message:
        if not self._whole:  # until then it is heard out, though the server ends
            message = await self._receive()
            self._whole = not message.get("more_body", False)
            if self._whole:
                self._leaving = asyncio.ensure_future(self._left())
            return message
        if self._leaving is not None and not self._leaving.done():
            await asyncio.wait([self._leaving])
        return GONE

    async def _left(self) -> None:
        """Until the client has gone or the server ends."""
        waits = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    def close(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()


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
