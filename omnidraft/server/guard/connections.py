"""Who may keep a connection, and how long: uvicorn alone waits for ever for a request that was begun.

A request's head must come within seconds and its body at no less than a slow line's pace; a client that does not read
its answer is left after a minute. When too many are connected, the one that has kept its request back longest makes
room. Looks at all of them once a second, instead of a timer for each. Knows nothing of what is asked.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from omnidraft.processes import system
from omnidraft.server.guard.ending import Ending

REQUEST_SECONDS = 10.0  # for a request's head, and for its body beside what the pace grants
PACE = 16_384  # bytes of a request that grant it another second
READ_SECONDS = 60.0  # without a client reading on
MOST = 256
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
    return min(MOST, system.open_files() // _FILES_FOR_EACH)
