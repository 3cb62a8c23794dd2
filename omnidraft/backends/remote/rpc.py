"""Asks a worker who it is before llama.cpp does, which would abort the process where something is wrong: `probe`.

Speaks the first words of llama.cpp's RPC protocol on a socket of its own: a command byte, a length, a body. Whatever
answers instead, a web server or nobody, becomes one sentence. A worker serves one connection at a time, so one that
is at work elsewhere does not answer.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import llama_cpp
import psutil

from omnidraft.backends.llama.devices import CPU, Device, describe, local_cards, local_devices
from omnidraft.backends.llama.runtime import begin_call, ggml
from omnidraft.errors import ModelError
from omnidraft.settings.fields import Address

# llama.cpp's RPC backend by its exported C functions: lend this machine's devices, or register those of workers. All
# of it aborts the process on a lost connection or a bad endpoint, so it is called only in child processes that may die
# (see target_link.py and worker_process.py). It sets no time limits, so that a cut cable would never be noticed:
# `notice_lost_peers`. Knows no models.


_MEMORY_SLOT = 2  # of `ggml_backend_device_i`: which of a device's functions tells its memory
_Memory = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)  # fmt: skip


def available() -> bool:
    """Whether llama.cpp was built with its RPC backend."""
    return bool(llama_cpp.llama_supports_rpc())


def lent_devices(name: str | None) -> list[Device]:
    """The devices a worker lends: the one called `name`, else the graphics cards, else the processor."""
    devices = local_devices()
    if name is not None:
        chosen = [device for device in devices if device.name.lower() == name.lower()]
        if not chosen:
            known = ", ".join(device.name for device in devices)
            raise ModelError(f"This machine has no device called {name}; it has {known}.")
        return chosen
    return local_cards() or [device for device in devices if device.type == CPU][:1]


def register(endpoint: str) -> list[Device]:
    """Connect to a worker ("a.b.c.d:port") and return its devices. Aborts the process if that fails."""
    _need()
    _KEPT.append(ggml("backend_rpc_init")(endpoint.encode(), 0))  # holds the one connection that all else uses
    registry = ggml("backend_rpc_add_server")(endpoint.encode())
    if not registry:
        raise ModelError(f"The worker at {endpoint} lends no device.")
    ggml("backend_register")(registry)
    return [describe(ggml("backend_reg_dev_get")(registry, i)) for i in range(ggml("backend_reg_dev_count")(registry))]


def serve(endpoint: str, devices: Sequence[Device], threads: int, cache_dir: str | None) -> None:
    """Lend `devices` to whoever connects, one after the other. Returns only if it cannot listen there."""
    _need()
    handles = (ctypes.c_void_p * len(devices))(*(device.handle for device in devices))
    folder = cache_dir.encode() if cache_dir else None
    ggml("backend_rpc_start_server")(endpoint.encode(), folder, threads, len(devices), handles)


def tell_memory(device: Device, ask: Callable[[], tuple[int, int]]) -> None:
    """Have `device` say what `ask` returns, (free, total) bytes: the processor calls all memory of a machine free.

    The function stands in a table of pointers. That it is the right one is checked before it is replaced.
    """
    table = ctypes.cast(device.handle, ctypes.POINTER(ctypes.c_void_p))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _Memory(table[_MEMORY_SLOT])(device.handle, free, total)
    if total.value != device.total:
        raise ModelError("This version of llama.cpp tells memory otherwise; leave out the memory limit.")

    def told(_device: int, free: ctypes._Pointer, total: ctypes._Pointer) -> None:
        free[0], total[0] = ask()

    function = _Memory(told)
    _KEPT.append(function)
    table[_MEMORY_SLOT] = ctypes.cast(function, ctypes.c_void_p).value


_KEPT: list[object] = []  # callbacks that ggml holds bare pointers to, and connections for the life of the process


def _need() -> None:
    begin_call()
    if not available():
        raise ModelError(
            "This build of llama-cpp-python has no RPC backend; install it as requirements.txt says: -DGGML_RPC=ON."
        )


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
