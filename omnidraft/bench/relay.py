"""A worker on this machine behind a relay for TCP connections, which holds bytes back as a network does.

The relay knows nothing of what goes through it. What a network does besides it cannot show: windows and lost packets.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnidraft.backends.remote.environment import ROOT, quiet_environment
from omnidraft.errors import ModelError
from omnidraft.settings.addresses import Address

_PART = 1 << 18  # bytes taken at once


class Relay:
    """Listens at `address` for connections to `target`. delay: seconds that a byte takes each way."""

    def __init__(self, target: Address, delay: float = 0.0) -> None:
        self.delay = delay
        self._target = target
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def close(self) -> None:
        self._server.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                with suppress(OSError):
                    far = socket.create_connection((self._target.host, self._target.port), timeout=10)
                    far.settimeout(None)
                    self._open += [near, far]
                    for one in (near, far):
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._carry(near, far)
                    self._carry(far, near)
                    continue
                near.close()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        due: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        for run in (lambda: self._take(source, due), lambda: self._give(due, sink)):
            threading.Thread(target=run, name="relay", daemon=True).start()

    def _take(self, source: socket.socket, due: queue.SimpleQueue) -> None:
        data = b"-"
        with suppress(OSError):
            while data:
                data = source.recv(_PART)
                due.put((time.perf_counter() + self.delay, data))
        due.put((0.0, b""))

    def _give(self, due: queue.SimpleQueue, sink: socket.socket) -> None:
        with suppress(OSError):
            while True:
                at, data = due.get()
                if not data:
                    break
                if (wait := at - time.perf_counter()) > 0:
                    time.sleep(wait)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def lent(delay_ms: float, threads: int) -> Iterator[Relay]:
    """A worker whose round trips take `delay_ms` longer than the machine itself needs, started as people do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = Address("127.0.0.1", probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "omnidraft", "worker", "--listen", str(listen), "--threads", str(threads)], cwd=ROOT,
        env=quiet_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    relay = None
    try:
        said = process.stdout.readline().strip()
        if not said.startswith("Lending"):
            raise ModelError(f"A worker did not start: {said or 'it said nothing'}.")
        relay = Relay(listen, delay_ms / 2000)
        yield relay
    finally:
        if relay is not None:
            relay.close()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        process.stdout.close()
