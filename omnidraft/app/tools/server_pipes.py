"""A program whose stdin and stdout carry messages of MCP, one a line, within bounds of their size.

The package's own `stdio_client` reads a line of any length into this process. What the program writes to stderr is
thrown away: it may tell what was said. Knows nothing of functions.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from omnidraft.app.tools.server_file import Program
from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from omnidraft.processes import system

MAX_MESSAGE = 16 << 20  # bytes: a picture of a screen is a few million
NONSENSE = 100  # lines that are no messages; some servers greet in words
GRACE = 2.0  # seconds to end by itself
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


class Pipes:
    """`opened` starts the program and ends it with its block. over: it says nothing more; fault: why, if it is one."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.over = asyncio.Event()
        self.fault = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Any, Any]]:
        """What it says, and where to say something. OmniDraftError if it cannot be started."""
        process = await self._started()
        heard, to_us = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_it, said = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [asyncio.create_task(one) for one in (self._hear(process, heard), _say(process, said))]
        try:
            yield to_us, to_it
        finally:
            with anyio.CancelScope(shield=True):
                to_it.close()
                await _end(process)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _started(self) -> Process:
        program = self._program
        environment = get_default_environment() | dict(program.environment)
        try:
            return await asyncio.create_subprocess_exec(
                shutil.which(program.command, path=environment.get("PATH")) or program.command, *program.arguments,
                stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MAX_MESSAGE, env=environment,
                cwd=os.path.expanduser(program.folder) if program.folder else Path.home(), **system.own_group(),
            )  # fmt: skip
        except OSError as error:
            raise OmniDraftError(f"could not be started ({error.strerror or error})") from None

    async def _hear(self, process: Process, heard: Any) -> None:
        assert process.stdout is not None
        nonsense = 0
        async with heard:
            with suppress(*_GONE):
                while line := await self._line(process.stdout):
                    try:
                        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                    except ValueError:
                        if line.strip() and (nonsense := nonsense + 1) > NONSENSE:
                            self.fault = "writes what is not MCP"
                            break
                        continue
                    await heard.send(message)
                self.fault = self.fault or ("wrote what is not MCP, and ended" if nonsense else "ended by itself")
                self.over.set()

    async def _line(self, stdout: asyncio.StreamReader) -> bytes:
        try:
            return await stdout.readline()
        except ValueError:
            self.fault = f"sent more than {size(MAX_MESSAGE)} at once"
            return b""


async def _say(process: Process, said: Any) -> None:
    assert process.stdin is not None
    async with said:
        with suppress(*_GONE):  # that it has ended is heard
            async for one in said:
                process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await process.stdin.drain()


async def _end(process: Process) -> None:
    """As the protocol has it: its stdin is closed, and what does not end then is ended with all it started."""
    assert process.stdin is not None
    process.stdin.close()
    await _wait(process)
    if process.returncode is None:
        system.end_group(process)
        await _wait(process)
    process._transport.close()  # type: ignore[attr-defined]  # what it started may hold its pipes open


async def _wait(process: Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
