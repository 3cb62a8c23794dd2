"""Ends what is still being sent when the server stops, so that stopping takes no time and leaves no traceback; a client
that leaves before it has sent its request leaves none either.

A page keeps streams open for as long as it is open itself. When the server ends, every request is told that its client
went away, which is what each of them waits for, and its response is closed as it should be.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GONE: Message = {"type": "http.disconnect"}


class Ending:
    """ASGI middleware around everything else; `over` is set when the server ends."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request, response = _Request(receive, self.over), _Response(send)
        try:
            with contextlib.suppress(ClientDisconnect):  # whoever left while sending expects no answer
                await self.app(scope, request.receive, response.send)
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
        self._open = False

    async def send(self, message: Message) -> None:
        self._open = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """Close what was begun and not ended."""
        if self._open:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
