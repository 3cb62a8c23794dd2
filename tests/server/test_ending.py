"""A server that ends while pages are open: their streams end with it, at once and without a word in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from omnidraft.server.guard.limits import Ending, Server


async def endless(request: Request) -> Response:
    """What an open page holds: a stream that ends when its client goes away."""

    async def beats():
        while True:
            yield "beat\n"
            await asyncio.sleep(30)

    return StreamingResponse(beats())


async def asking(request: Request) -> Response:
    """A stream that looks for itself whether somebody is there."""

    async def beats():
        while not await request.is_disconnected():
            yield "beat\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(beats())


async def echo(request: Request) -> Response:
    return Response(await request.body())


APP = Starlette(routes=[Route("/endless", endless), Route("/asking", asking), Route("/echo", echo, methods=["POST"])])


async def said(port: int, method: str, path: str, body: bytes = b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    reader.kept = writer  # a writer nobody holds closes the connection
    return reader


async def ended(waiting: float) -> tuple[list[bytes], bytes]:
    """What two open streams were sent when the server ended, and an answer from before."""
    config = uvicorn.Config(Ending(APP), port=0, log_config=None, timeout_graceful_shutdown=waiting)
    server = Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    streams = [await said(port, "GET", "/endless"), await said(port, "GET", "/asking")]
    for stream in streams:
        await stream.readuntil(b"beat")
    echoed = await (await said(port, "POST", "/echo", b"Hello" * 2_000)).readuntil(b"Hello" * 2_000)
    server.should_exit = True
    await running
    return [await stream.read() for stream in streams], echoed


def run(what: Coroutine) -> Any:
    """In a thread of its own: a browser test before this one may have left its loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(asyncio.wait_for(what, 50))).result()


def test_open_streams_end_with_the_server(caplog):
    with caplog.at_level(logging.INFO, "uvicorn.error"):
        streams, echoed = run(ended(60))  # long before they would be cut off
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert all(stream.endswith(b"0\r\n\r\n") for stream in streams), "each response is whole"
    assert echoed.startswith(b"HTTP/1.1 200")


async def left(path: str) -> None:
    """A client leaves before it has sent what it announced."""
    server = Server(uvicorn.Config(Ending(APP), port=0, log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    _, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname()[:2])
    writer.write(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nHello".encode())
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.close()
    while server.server_state.tasks:
        await asyncio.sleep(0.01)
    server.should_exit = True
    await running


def test_a_client_that_leaves_while_sending_logs_nothing(caplog):
    with caplog.at_level(logging.INFO, "uvicorn.error"):
        run(left("/echo"))
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
