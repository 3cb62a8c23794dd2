"""Asks a worker who it is before llama.cpp does, which would abort the process where something is wrong: `probe`.

Speaks the first words of llama.cpp's RPC protocol on a socket of its own: a command byte, a length, a body. Whatever
answers instead, a web server or nobody, becomes one sentence. A worker serves one connection at a time, so one that
is at work elsewhere does not answer.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from omnidraft.errors import ModelError
from omnidraft.settings.addresses import Address

SECONDS = 5.0  # for an answer, connecting included
PROTOCOL = (7, 0)  # major and minor version that the installed llama.cpp speaks
_HELLO, _DEVICE_COUNT, _DEVICE_MEMORY = 14, 15, 11
_CAPABILITIES = 24  # bytes
_DEVICES = 64  # more than this is not a worker's answer
_ROUNDS = 5  # round trips of which the median counts


class NoWorker(ModelError):
    """Nothing that can be used answers there."""


@dataclass(frozen=True, slots=True)
class Found:
    """A worker that answered. version: of the protocol; memory: (free, total) bytes of each device; latency: seconds of
    a round trip."""

    address: Address
    version: str
    memory: tuple[tuple[int, int], ...] = field(default=())
    latency: float = 0.0

    @property
    def free(self) -> int:
        return sum(free for free, _ in self.memory)


def probe(address: Address, seconds: float = SECONDS) -> Found:
    """What the worker at `address` says of itself; NoWorker with a sentence if there is none that could be used."""
    try:
        with socket.create_connection((address.resolved(), address.port), timeout=seconds) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            version = _hello(connection, address)
            count = _devices(connection, address)
            rounds = sorted(_round_trip(connection, address) for _ in range(_ROUNDS))
            memory = tuple(_memory(connection, address, device) for device in range(count))
    except TimeoutError:
        raise NoWorker(
            f"The worker at {address} does not answer within {seconds:g} seconds; "
            "it may be at work for another program, or stopped."
        ) from None
    except (ConnectionResetError, BrokenPipeError):  # it took the connection and hung up
        raise _not_one(address) from None
    except OSError as error:
        raise NoWorker(
            f"There is no worker at {address} ({error.strerror or error}); start one there with "
            "python -m omnidraft worker, or remove it."
        ) from None
    return Found(address, version, memory, median(rounds))


def reachable(address: Address, seconds: float = 1.0) -> bool:
    """Whether anything accepts connections there."""
    with suppress(OSError, NoWorker):
        socket.create_connection((address.resolved(), address.port), timeout=seconds).close()
        return True
    return False


def _hello(connection: socket.socket, address: Address) -> str:
    body = _ask(connection, address, _HELLO, bytes(_CAPABILITIES), 4 + _CAPABILITIES)
    major, minor, patch = body[:3]
    version = f"{major}.{minor}.{patch}"
    if major != PROTOCOL[0] or minor > PROTOCOL[1]:
        raise NoWorker(
            f"The worker at {address} speaks version {version} of the protocol, this machine {PROTOCOL[0]}."
            f"{PROTOCOL[1]}; install the same version of OmniDraft on both."
        )
    return version


def _devices(connection: socket.socket, address: Address) -> int:
    (count,) = struct.unpack("<I", _ask(connection, address, _DEVICE_COUNT, b"", 4))
    if not 0 < count <= _DEVICES:
        raise _not_one(address)
    return count


def _round_trip(connection: socket.socket, address: Address) -> float:
    start = perf_counter()
    _devices(connection, address)
    return perf_counter() - start


def _memory(connection: socket.socket, address: Address, device: int) -> tuple[int, int]:
    return struct.unpack("<QQ", _ask(connection, address, _DEVICE_MEMORY, struct.pack("<I", device), 16))


def _ask(connection: socket.socket, address: Address, command: int, body: bytes, size: int) -> bytes:
    """The body of the answer, which must have `size` bytes."""
    connection.sendall(struct.pack("<BQ", command, len(body)) + body)
    (length,) = struct.unpack("<Q", _receive(connection, address, 8))
    if length != size:
        raise _not_one(address)
    return _receive(connection, address, size)


def _receive(connection: socket.socket, address: Address, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise _not_one(address)
        data += part
    return data


def _not_one(address: Address) -> NoWorker:
    return NoWorker(
        f"What answers at {address} is not a worker, or one of another version; "
        "check the port, and install the same version of OmniDraft on both."
    )
