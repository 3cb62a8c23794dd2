"""Ends what is still being sent when the server stops, so that stopping takes no time and leaves no traceback; a client
that leaves before it has sent its request leaves none either.

A page keeps streams open for as long as it is open itself. When the server ends, every request is told that its client
went away, which is what each of them waits for, and its response is closed as it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import MutableMapping
from typing import Any

import uvicorn
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
        response = _Response(send)
        with contextlib.suppress(ClientDisconnect):  # whoever left while sending expects no answer
            await self.app(scope, self._hearing(receive), response.send)
        if self.over.is_set():
            await response.end()

    def _hearing(self, receive: Receive) -> Receive:
        whole = False  # whether all of the request has come: until then it is heard out

        async def hear() -> Message:
            nonlocal whole
            if not whole:
                message = await receive()
                whole = not message.get("more_body", False)
                return message
            if self.over.is_set():
                return GONE
            waits = [asyncio.ensure_future(receive()), asyncio.ensure_future(self.over.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                return waits[0].result() if waits[0].done() else GONE
            finally:
                for one in waits:
                    one.cancel()

        return hear


class _Response:
    """Knows how far a response has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self._open = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def end(self) -> None:
        """Close what was begun and not ended."""
        if self._open:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Server(uvicorn.Server):
    """A server that tells its requests when it ends. Its application is an `Ending`."""

    async def shutdown(self, sockets: list | None = None) -> None:
        self.config.app.over.set()
        await super().shutdown(sockets)
