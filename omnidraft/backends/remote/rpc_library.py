"""llama.cpp's RPC backend by its exported C functions: lend this machine's devices, or register those of workers.

llama-cpp-python has no names for them. Everything here aborts the process on a lost connection or a bad endpoint, so
it is called only in child processes that may die (target_child.py, worker_server.py). It sets no time limits, so that a
cut cable would never be noticed: `notice_lost_peers`. Knows no models.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

import llama_cpp
import psutil

from omnidraft.backends.llama.devices import (
    CPU,
    Device,
    describe,
    device_functions,
    local_cards,
    local_devices,
)
from omnidraft.backends.llama.runtime import begin_call, declare, load_library
from omnidraft.errors import ModelError

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
    _KEPT.append(_rpc().ggml_backend_rpc_init(endpoint.encode(), 0))  # holds the one connection that all else uses
    registry = _rpc().ggml_backend_rpc_add_server(endpoint.encode())
    if not registry:
        raise ModelError(f"The worker at {endpoint} lends no device.")
    ggml = device_functions()
    ggml.ggml_backend_register(registry)
    count = ggml.ggml_backend_reg_dev_count(registry)
    return [describe(ggml.ggml_backend_reg_dev_get(registry, i)) for i in range(count)]


def serve(endpoint: str, devices: Sequence[Device], threads: int, cache_dir: str | None) -> None:
    """Lend `devices` to whoever connects, one after the other. Returns only if it cannot listen there."""
    _need()
    handles = (ctypes.c_void_p * len(devices))(*(device.handle for device in devices))
    folder = cache_dir.encode() if cache_dir else None
    _rpc().ggml_backend_rpc_start_server(endpoint.encode(), folder, threads, len(devices), handles)


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


@cache
def _rpc() -> ctypes.CDLL:
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    library = load_library("ggml-rpc")
    declare(library, "ggml_backend_rpc_add_server", pointer, text)
    declare(library, "ggml_backend_rpc_init", pointer, text, ctypes.c_uint32)
    declare(
        library, "ggml_backend_rpc_start_server", None, text, text, size, size, ctypes.POINTER(pointer)
    )  # fmt: skip
    return library


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
