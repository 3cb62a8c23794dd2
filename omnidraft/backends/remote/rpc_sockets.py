"""Makes the sockets that llama.cpp opened in this process notice a peer that is gone: it sets no time limits itself.

Without them a cut cable is never noticed: a read waits for ever. Knows nothing of what goes through the sockets.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import psutil

GONE_AFTER = 20  # seconds without a sign of the other machine
_IDLE, _INTERVAL, _COUNT = 5, 5, 3  # a question after 5 seconds of silence, then two more
_OPTIONS = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _IDLE),
    (socket.IPPROTO_TCP, "TCP_KEEPALIVE", _IDLE),  # the same on macOS
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", _INTERVAL),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", _COUNT),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", GONE_AFTER * 1000),  # for what was sent and not acknowledged
)


def notice_lost_peers() -> int:
    """Set the limits on every TCP connection of this process, where the system has them; how many there are."""
    found = 0
    with suppress(psutil.Error, OSError):
        for connection in psutil.Process().net_connections("tcp"):
            if connection.status == psutil.CONN_ESTABLISHED and connection.fd >= 0:
                found += 1
                _limit(connection.fd)
    return found


def _limit(descriptor: int) -> None:
    with suppress(OSError):
        copy = socket.socket(fileno=os.dup(descriptor))  # the options belong to the connection, not to the copy
        with copy:
            for level, name, value in _OPTIONS:
                if hasattr(socket, name):
                    with suppress(OSError):
                        copy.setsockopt(level, getattr(socket, name), value)
