"""What ggml computes with: processors and graphics cards, workers' too, and how much of their memory is free.

Knows no models.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import llama_cpp
import psutil

from omnidraft.backends.llama.runtime import begin_call, ggml
from omnidraft.errors import ModelError

CPU, GPU, INTEGRATED = 0, 1, 2  # ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Device:
    """Something that computes. handle: ggml's pointer; free, total: bytes."""

    handle: int
    name: str
    description: str
    type: int
    free: int
    total: int


def local_devices() -> list[Device]:
    """What this machine computes with, RPC devices left out."""
    begin_call()
    handles = [ggml("backend_dev_get")(i) for i in range(ggml("backend_dev_count")())]
    registries = [ggml("backend_dev_backend_reg")(handle) for handle in handles]
    names = map(ggml("backend_reg_name"), registries)
    return [describe(handle) for handle, name in zip(handles, names, strict=True) if name != b"RPC"]


def local_cards() -> list[Device]:
    """The graphics cards of this machine; those that share the processor's memory only where there are no others."""
    devices = local_devices()
    own = [device for device in devices if device.type == GPU]
    return own or [device for device in devices if device.type == INTEGRATED]


@cache
def gpu_offload() -> bool:
    """Whether llama.cpp can use a graphics card here. Its own answer is yes of every build that knows workers."""
    return bool(local_cards())


def describe(handle: int) -> Device:
    """The device behind ggml's pointer, its memory as it is now."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml("backend_dev_memory")(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(
        handle,
        ggml("backend_dev_name")(handle).decode(),
        ggml("backend_dev_description")(handle).decode(errors="replace"),
        ggml("backend_dev_type")(handle),
        free.value,
        total.value,
    )


# Which layers of a model lie on which device, as llama.cpp is told. Knows nothing of how that was decided. llama.cpp
# gives the first layers to this machine's processor and the rest to the devices in their order. The last step, from
# the hidden state to the logits, belongs to the last device: a graphics card keeps it. Over a network it is computed
# here, so that a row crosses it as some thousand numbers and not as one for every token of the vocabulary.


_OUTPUT = rb"^(output|token_embd)\.weight$"


class _Override(ctypes.Structure):
    _fields_ = (("pattern", ctypes.c_char_p), ("buffers", ctypes.c_void_p))


class Placement:
    """devices: ggml's pointers; layers: how many each takes; output_in: ggml's buffer type of this machine's memory
    where the last step is to be computed here."""

    def __init__(self, devices: Sequence[int], layers: Sequence[int], output_in: int | None = None) -> None:
        used = [(device, count) for device, count in zip(devices, layers, strict=True) if count]
        self.layers = sum(count for _, count in used)
        self._devices = (ctypes.c_void_p * (len(used) + 1))(*(device for device, _ in used), None)
        shares = [float(count) for _, count in used]
        if shares:
            shares[-1] += 1.0  # the output counts as a layer
        length = max(llama_cpp.llama_max_devices(), len(shares) + 1)
        self._shares = (ctypes.c_float * length)(*shares)
        kept = [_Override(_OUTPUT, output_in)] if output_in is not None else []
        self._overrides = (_Override * (len(kept) + 1))(*kept, _Override(None, None))

    def apply(self, parameters: llama_cpp.llama_model_params) -> None:
        """Write it into `parameters`, which point into this object from now on."""
        parameters.devices = ctypes.cast(self._devices, ctypes.c_void_p)
        parameters.tensor_split = ctypes.cast(self._shares, ctypes.POINTER(ctypes.c_float))
        parameters.tensor_buft_overrides = ctypes.cast(self._overrides, ctypes.c_void_p)
        parameters.n_gpu_layers = self.layers + 1 if self.layers else 0


# llama.cpp's RPC backend by its exported C functions: lend this machine's devices, or register those of workers. All
# of it aborts the process on a lost connection or a bad endpoint, so it is called only in child processes that may die
# (see target_link.py and worker_process.py). It sets no time limits, so that a cut cable would never be noticed:
# `notice_lost_peers`.


_MEMORY_SLOT = 2  # of `ggml_backend_device_i`: which of a device's functions tells its memory
_Memory = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)  # fmt: skip


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


def register_worker(endpoint: str) -> list[Device]:
    """Connect to a worker ("a.b.c.d:port") and return its devices. Aborts the process if that fails."""
    _need()
    _KEPT.append(ggml("backend_rpc_init")(endpoint.encode(), 0))  # holds the one connection that all else uses
    registry = ggml("backend_rpc_add_server")(endpoint.encode())
    if not registry:
        raise ModelError(f"The worker at {endpoint} lends no device.")
    ggml("backend_register")(registry)
    return [describe(ggml("backend_reg_dev_get")(registry, i)) for i in range(ggml("backend_reg_dev_count")(registry))]


def lend(endpoint: str, devices: Sequence[Device], threads: int, cache_dir: str | None) -> None:
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
    if not llama_cpp.llama_supports_rpc():
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
