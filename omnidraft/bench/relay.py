"""A worker on this machine behind a relay for TCP connections, which holds bytes back as a network does.

The relay knows nothing of what goes through it. What a network does besides it cannot show: windows and lost packets.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnidraft.backends.remote.environment import ROOT, quiet_environment
from omnidraft.errors import ModelError
from omnidraft.settings.addresses import Address

_PART = 1 << 18  # bytes taken at once


@contextmanager
def relayed(target: Address, delay: float) -> Iterator[Address]:
    """An address on this machine whose connections lead to `target`; a byte takes `delay` seconds more each way."""
    loop, listener = asyncio.new_event_loop(), socket.create_server(("127.0.0.1", 0))

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            back, forth = await asyncio.open_connection(target.host, target.port)
            await asyncio.gather(_carry(reader, forth, delay), _carry(back, writer, delay))

    def serve() -> None:  # all in one thread, whatever loop the caller's has
        server = loop.run_until_complete(asyncio.start_server(accepted, sock=listener))
        loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    thread = threading.Thread(target=serve, name="relay", daemon=True)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1])
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Asyncio's sockets send at once (TCP_NODELAY)."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await reader.read(_PART):
            loop.call_later(delay, writer.write, data)  # parts that come later are due later: order stays
    loop.call_later(delay, writer.close)


@contextmanager
def lent(delay_ms: float, threads: int) -> Iterator[Address]:
    """A worker whose round trips take `delay_ms` longer than the machine itself needs, started as people do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = Address("127.0.0.1", probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "omnidraft", "worker", "--listen", str(listen), "--threads", str(threads)], cwd=ROOT,
        env=quiet_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = process.stdout.readline().strip()
        if not said.startswith("Lending"):
            raise ModelError(f"A worker did not start: {said or 'it said nothing'}.")
        with relayed(listen, delay_ms / 2000) as address:
            yield address
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        process.stdout.close()
