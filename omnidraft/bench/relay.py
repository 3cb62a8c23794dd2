"""A relay for TCP connections that counts bytes and holds them back: a network's delay where the kernel offers none.

It knows nothing of what goes through it. What a kernel's queue would not do it cannot show: windows and lost packets.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress

from omnidraft.settings.addresses import Address

_PART = 1 << 18  # bytes taken at once


class Relay:
    """Listens at `address` for connections to `target`. delay: seconds that a byte takes each way; sent, received:
    bytes towards the target and back."""

    def __init__(self, target: Address, delay: float = 0.0) -> None:
        self.delay = delay
        self.sent = self.received = 0
        self._target = target
        self._cut = threading.Event()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def cut(self) -> None:
        """From now on nothing gets through, though no connection ends: a cable that was pulled."""
        self._cut.set()

    def mend(self) -> None:
        """New connections get through again; the old ones, which lost bytes, end."""
        self._cut.clear()
        self._close_connections()

    def close(self) -> None:
        self._server.close()
        self._close_connections()

    def _close_connections(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open = []

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
                    self._carry(near, far, True)
                    self._carry(far, near, False)
                    continue
                near.close()

    def _carry(self, source: socket.socket, sink: socket.socket, outward: bool) -> None:
        due: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        for run in (lambda: self._take(source, due, outward), lambda: self._give(due, sink)):
            threading.Thread(target=run, name="relay", daemon=True).start()

    def _take(self, source: socket.socket, due: queue.SimpleQueue, outward: bool) -> None:
        data = b"-"
        with suppress(OSError):
            while data:
                data = source.recv(_PART)
                if outward:
                    self.sent += len(data)
                else:
                    self.received += len(data)
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
                if not self._cut.is_set():
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
