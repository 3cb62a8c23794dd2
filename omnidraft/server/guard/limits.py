"""How much a request may send, by where it goes: held while it comes in, before anything reads or keeps it.

The one mechanism for all routes, those that need no sign-in among them: with accounts these are `/login` and the icon
(auth.py refuses the rest unread), without them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Any

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from omnidraft.processes import system

ELSEWHERE = 16 << 10  # bytes: a name and a password
MOST = {
    "/v1/": 8 << 20,
    "/model-files": 1 << 44,  # written as it comes, as far as the disk has room
    "/gradio_api/upload": 128 << 20,  # several files, each of which Gradio bounds
    "/gradio_api/": 16 << 20,  # what a page's event holds
}


class Limits:
    """ASGI middleware: a request that sends more is refused with 413, however little of it was read until then."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, _bounded(scope, receive), sending)
        except HTTPException as refused:  # where another middleware reads
            if begun:
                raise
            await PlainTextResponse(refused.detail, refused.status_code)(scope, receive, send)


def most(path: str) -> int:
    """Bytes that the body of a request to `path` may have."""
    return next((count for prefix, count in MOST.items() if path.startswith(prefix)), ELSEWHERE)


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """Raises HTTPException for a body that is, or says that it will be, too large."""
    allowed, received = most(scope["path"]), 0
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


# Who may keep a connection, and how long: uvicorn alone waits for ever for a request that was begun. A request's head
# must come within seconds and its body at no less than a slow line's pace; a client that does not read its answer is
# left after a minute. When too many are connected, the one that has kept its request back longest makes room. Looks at
# all of them once a second, instead of a timer for each. Knows nothing of what is asked.


REQUEST_SECONDS = 10.0  # for a request's head, and for its body beside what the pace grants
PACE = 16_384  # bytes of a request that grant it another second
READ_SECONDS = 60.0  # without a client reading on
MOST_CONNECTIONS = 256
BACKLOG = 100  # accepted in one go, before any of them can be refused
_FILES_FOR_EACH = 4  # open files a connection may need with what is done for it: the rest is for models and profiles


class Connection(H11Protocol):
    """One client's. began: when the request that is coming in began; received: its bytes so far."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.began, self.received = time.monotonic(), 0
        self._unread_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.keeps_back]
            min(waiting, key=lambda one: one.began, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self.began, self.received = time.monotonic(), 0
        self.received += len(data)
        super().data_received(data)

    def pause_writing(self) -> None:
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    @property
    def keeps_back(self) -> bool:
        """Whether there is no whole request to be answered."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def is_late(self, now: float) -> bool:
        """Whether it has used up its time; not while uvicorn's own clock runs, which ends what is silent behind an
        answer."""
        if self._unread_since is not None:
            return now - self._unread_since > READ_SECONDS
        if not self.keeps_back or self.timeout_keep_alive_task is not None:
            return False
        answered = self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY
        return now - self.began > REQUEST_SECONDS + (0 if answered else self.received / PACE)


class Server(uvicorn.Server):
    """Ends late connections, and tells its requests when it ends itself. Its application is an `Ending`."""

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = time.monotonic()
            for one in list(self.server_state.connections):
                if isinstance(one, Connection) and one.is_late(now):
                    one.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        assert isinstance(self.config.app, Ending)
        self.config.app.over.set()
        await super().shutdown(sockets)


def most_connections() -> int:
    """As many as the system's limit of open files leaves room for."""
    return min(MOST_CONNECTIONS, system.open_files() // _FILES_FOR_EACH)
