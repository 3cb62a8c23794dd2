"""How much a request may send, by where it goes: held while it comes in, before anything reads or keeps it.

The one mechanism for all routes, those that need no sign-in among them: with accounts these are `/login` and the icon
(auth.py refuses the rest unread), without them all. How long a request may take is a matter of connections.py.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
