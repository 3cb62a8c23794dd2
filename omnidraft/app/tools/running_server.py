"""One MCP server at work: started, asked what it offers, called within a time limit, ended. From any thread.

Imported only where a server is named: the package takes a second to import. Whatever the program does, what comes of it
here is a sentence. Knows nothing of conversations and of who allowed a call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from concurrent import futures
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    PaginatedRequestParams,
    TextContent,
    Tool,
    jsonrpc_message_adapter,
)

from omnidraft.app.tools.functions import ToolError
from omnidraft.app.tools.server_file import Program
from omnidraft.errors import OmniDraftError
from omnidraft.format import size
from omnidraft.processes import system

# A program whose stdin and stdout carry messages of MCP, one a line, within bounds of their size. The package's own
# `stdio_client` reads a line of any length into this process. What the program writes to stderr is thrown away: it may
# tell what was said. Knows nothing of functions.


MAX_MESSAGE = 16_000_000  # bytes: a picture of a screen is a few million
NONSENSE = 100  # lines that are no messages; some servers greet in words
GRACE = 2.0  # seconds to end by itself


class Pipes(AsyncIterator[SessionMessage], AbstractAsyncContextManager[Any]):
    """`opened` starts the program and ends it with its block, in which this is both streams that a session wants: what
    it says, and where to say something. over: it says nothing more; fault: why, if it is one."""

    _process: Process

    def __init__(self, program: Program) -> None:
        self._program = program
        self.over = asyncio.Event()
        self.fault = ""
        self._nonsense = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        """OmniDraftError if it cannot be started."""
        program = self._program
        environment = get_default_environment() | dict(program.environment)
        try:
            self._process = await asyncio.create_subprocess_exec(
                shutil.which(program.command, path=environment.get("PATH")) or program.command, *program.arguments,
                stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MAX_MESSAGE, env=environment,
                cwd=os.path.expanduser(program.folder) if program.folder else Path.home(), **system.own_group(),
            )  # fmt: skip
        except OSError as error:
            raise OmniDraftError(f"could not be started ({error.strerror or error})") from None
        try:
            yield self
        finally:
            with anyio.CancelScope(shield=True):
                await _end(self._process)

    async def __aexit__(self, *_: object) -> None:
        """It is `opened` that ends it."""

    async def __anext__(self) -> SessionMessage:
        while line := await self._line():
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self._nonsense += bool(line.strip())
                if self._nonsense > NONSENSE:
                    self.fault = "writes what is not MCP"
                    break
        self.fault = self.fault or ("wrote what is not MCP, and ended" if self._nonsense else "ended by itself")
        self.over.set()
        raise StopAsyncIteration

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.readline()
        except ValueError:
            self.fault = f"sent more than {size(MAX_MESSAGE)} at once"
        except OSError:  # it has ended
            pass
        return b""

    async def send(self, one: SessionMessage) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # that it has ended is heard
            self._process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await self._process.stdin.drain()


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


START_SECONDS = 60.0  # some fetch themselves when they are started first
CALL_SECONDS = 60.0
END_SECONDS = 8.0
LOOK_EVERY = 0.1  # seconds between looks at whether a call was stopped
MOST = 100  # functions of one server
logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)  # its warnings quote what was said


class RunningServer:
    """tools: what it offers, once it is `ready`; fault: why it has ended or offers nothing, the rest of a sentence that
    begins with its name; "" as long as it runs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tools: list[Tool] = []
        self.fault = ""
        self.ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._closing = False
        self._work: anyio.CancelScope | None = None  # all but ending in order
        self._pipes = Pipes(program)
        self._session: ClientSession | None = None
        self._thread = threading.Thread(target=self._run, name="mcp", daemon=True)
        self._thread.start()

    def call(self, tool: str, arguments: dict[str, Any], stopped: Callable[[], bool]) -> str:
        """What a function says. ToolError: why it says nothing."""
        asking = self._call(tool, arguments)
        try:
            answer = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # it has ended
            asking.close()
            raise ToolError(self._ended()) from None
        while not answer.done():
            if stopped() and answer.cancel():
                raise ToolError("The user stopped the call; whether it did anything is not known.")
            futures.wait([answer], LOOK_EVERY)
        if answer.cancelled():
            raise ToolError(self._ended())
        return answer.result()

    def close(self) -> None:
        """Have it end; `join` waits until it has."""
        with suppress(RuntimeError):  # it has
            self._loop.call_soon_threadsafe(self._cancel)

    def join(self) -> None:
        self._thread.join(END_SECONDS)

    def _ended(self) -> str:
        return f"{self.program.name} {self.fault or 'has ended'}; the next question starts it again."

    def _cancel(self) -> None:
        self._closing = True
        if self._work is not None:
            self._work.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        pipes = self._pipes
        try:
            with anyio.CancelScope() as self._work:
                if self._closing:
                    return
                async with pipes.opened() as both, ClientSession(both, both) as session:
                    if await self._begun(session):
                        self._session = session
                        self.ready.set()
                        await pipes.over.wait()
                        self.fault = self.fault or pipes.fault
        except OmniDraftError as error:
            self.fault = str(error)
        except Exception:  # the package meets a stranger's program: nothing it raises may pass here
            self.fault = self.fault or "does not speak MCP"
        finally:
            self.fault = self.fault or "was ended"
            self._session = None
            self.ready.set()

    async def _begun(self, session: ClientSession) -> bool:
        """Whether it says what it offers, behind the handshake that every server knows: some end when they are asked
        for a newer one."""
        try:
            with anyio.fail_after(START_SECONDS):
                await session.initialize()
                cursor: str | None = None
                while len(self.tools) < MOST:
                    page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                    self.tools += page.tools
                    if (cursor := page.next_cursor) is None:
                        break
        except TimeoutError:
            self.fault = f"did not say within {START_SECONDS:g} seconds what it offers"
        except Exception:  # as above
            self.fault = self._pipes.fault or "does not speak MCP"
        return not self.fault

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        if self._session is None:
            raise ToolError(self._ended())
        try:
            with anyio.fail_after(CALL_SECONDS):
                result = await self._session.call_tool(tool, arguments)
        except TimeoutError:
            self.fault = f"did not answer within {CALL_SECONDS:g} seconds and was ended"
            self._cancel()
        except Exception as error:  # as above; a refusal is the server's own sentence
            if not self._pipes.fault:
                raise ToolError(f"{self.program.name} says: {error}") from None
            self.fault = self.fault or self._pipes.fault
        else:
            return _text(result)
        raise ToolError(self._ended())


def _text(result: CallToolResult) -> str:
    said = "\n".join(map(_part, result.content))
    if not said and result.structured_content is not None:
        said = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        raise ToolError(said or "The function failed and did not say why.")
    return said or "(nothing)"


def _part(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    text = getattr(block.resource, "text", None) if isinstance(block, EmbeddedResource) else None
    return text if isinstance(text, str) else f"[{block.type}, which is not text]"
