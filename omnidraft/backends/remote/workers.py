"""How a model is spread over this machine and workers: who is there, what fits where, which layers each takes.

Asks workers and the file's header; loads nothing. What comes out is what target_process.py hands on.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from time import perf_counter

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import available_bytes, kv_cache_bytes, layer_bytes
from omnidraft.errors import ModelError
from omnidraft.format import size
from omnidraft.settings.config import ModelSettings
from omnidraft.settings.fields import Address, parse_addresses, parse_split

# A worker is asked who it is before llama.cpp does, which would abort the process where something is wrong: `probe`.
# Speaks the first words of llama.cpp's RPC protocol on a socket of its own: a command byte, a length, a body. Whatever
# answers instead, a web server or nobody, becomes one sentence. A worker serves one connection at a time, so one that
# is at work elsewhere does not answer.


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
    memory: tuple[tuple[int, int], ...] = ()
    latency: float = 0.0

    @property
    def free(self) -> int:
        return sum(free for free, _ in self.memory)


def probe(address: Address, seconds: float = SECONDS) -> Found:
    """What the worker at `address` says of itself; NoWorker with a sentence if there is none that could be used."""
    try:
        with socket.create_connection((address.resolved(), address.port), timeout=seconds) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            version = _ask(connection, _HELLO, bytes(_CAPABILITIES), 4 + _CAPABILITIES)[:3]
            shown = ".".join(map(str, version))
            if version[0] != PROTOCOL[0] or version[1] > PROTOCOL[1]:
                raise NoWorker(
                    f"The worker at {address} speaks version {shown} of the protocol, this machine {PROTOCOL[0]}."
                    f"{PROTOCOL[1]}; install the same version of OmniDraft on both."
                )
            count, latency = _devices(connection)
            asked = (_ask(connection, _DEVICE_MEMORY, struct.pack("<I", device), 16) for device in range(count))
            return Found(address, shown, tuple(struct.unpack("<QQ", memory) for memory in asked), latency)
    except TimeoutError:
        raise NoWorker(
            f"The worker at {address} does not answer within {seconds:g} seconds; "
            "it may be at work for another program, or stopped."
        ) from None
    except (ConnectionResetError, BrokenPipeError):  # it took the connection and hung up, or said something else
        raise NoWorker(
            f"What answers at {address} is not a worker, or one of another version; "
            "check the port, and install the same version of OmniDraft on both."
        ) from None
    except OSError as error:
        raise NoWorker(
            f"There is no worker at {address} ({error.strerror or error}); start one there with "
            "python -m omnidraft worker, or remove it."
        ) from None


def reachable(address: Address) -> bool:
    """Whether anything accepts connections there."""
    with suppress(OSError, ModelError):
        socket.create_connection((address.resolved(), address.port), timeout=1).close()
        return True
    return False


def _devices(connection: socket.socket) -> tuple[int, float]:
    """(how many devices it has, seconds of a round trip)."""
    taken = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        (count,) = struct.unpack("<I", _ask(connection, _DEVICE_COUNT, b"", 4))
        taken.append(perf_counter() - start)
    if not 0 < count <= _DEVICES:
        raise ConnectionResetError
    return count, median(taken)


def _ask(connection: socket.socket, command: int, body: bytes, size: int) -> bytes:
    """The body of the answer; ConnectionResetError if it has not `size` bytes."""
    connection.sendall(struct.pack("<BQ", command, len(body)) + body)
    if struct.unpack("<Q", _receive(connection, 8)) != (size,):
        raise ConnectionResetError
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


HERE = "this machine"
_SPARE = 0.95  # of what is free may be filled
_BUFFERS = 24 << 20  # bytes a device takes before the first layer: graphs, work areas
_STEP = 512  # prompt tokens computed at once
_WIDE = 12  # floats a prompt token takes at once in a layer, in widths of the model
_UNKNOWN = 1 << 62  # free bytes of a system that does not say


@dataclass(frozen=True, slots=True)
class Part:
    """One device's share of a model. first, last: its layers, counted from 0, `last` behind the last."""

    name: str
    first: int
    last: int

    @property
    def layers(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a model's layers lie: here first, then on the workers' devices in their order."""

    workers: tuple[Address, ...]
    parts: tuple[Part, ...]
    found: tuple[Found, ...] = ()

    @property
    def layers_on_workers(self) -> list[int]:
        return [part.layers for part in self.parts[1:]]

    def __str__(self) -> str:
        used = [part for part in self.parts if part.layers]
        return ", ".join(f"layers {part.first + 1} to {part.last} on {part.name}" for part in used)


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes. layers: each with its part of the cache; around: what stays here; computing: on each device."""

    layers: tuple[int, ...]
    around: int
    computing: int

    @property
    def total(self) -> int:
        return sum(self.layers) + self.around + self.computing


def find(addresses: Sequence[Address], seconds: float = SECONDS) -> list[Found | NoWorker]:
    """Who answers at each address within `seconds`, all asked at once."""
    if not addresses:
        return []
    with ThreadPoolExecutor(len(addresses)) as asking:
        return list(asking.map(_found, addresses, [seconds] * len(addresses)))


def _found(address: Address, seconds: float) -> Found | NoWorker:
    try:
        return probe(address, seconds)
    except NoWorker as error:
        return error
    except ModelError as error:  # its name leads nowhere
        return NoWorker(str(error))


def plan(info: ModelInfo, settings: ModelSettings, n_ctx: int) -> Plan:
    """Spread `info` over this machine and the workers of `settings`; ModelError in one sentence if that cannot be."""
    addresses = parse_addresses(settings.workers)
    found = []
    for one in find(addresses):
        if isinstance(one, NoWorker):
            raise one
        found.append(one)
    here = available_bytes()
    names = [HERE, *(_name(one, i) for one in found for i in range(len(one.memory)))]
    free = [_UNKNOWN if here is None else here, *(free for one in found for free, _ in one.memory)]
    shares = _shares(parse_split(settings.split), found)
    needs = measure_needs(info, settings, n_ctx)
    counts = distribute(needs, free, shares)
    if counts is None:
        raise ModelError(_too_little(info, needs, names, free, n_ctx, bool(shares)))
    parts = [Part(name, end - count, end) for name, count, end in zip(names, counts, accumulate(counts), strict=True)]
    return Plan(addresses, tuple(parts), tuple(found))


def _name(found: Found, device: int) -> str:
    return str(found.address) if len(found.memory) == 1 else f"{found.address} (device {device + 1})"


def _shares(split: tuple[float, ...], found: Sequence[Found]) -> tuple[float, ...]:
    """The wanted shares, this machine's first; a split that names only the workers leaves nothing here."""
    if not split:
        return ()
    devices = sum(len(one.memory) for one in found)
    if len(split) == devices:
        split = (0.0, *split)
    if len(split) != devices + 1:
        raise ModelError(
            f"The split names {len(split)} shares, but there are {devices} workers' devices and this machine; "
            f"name {devices + 1} shares, this machine's first, or {devices} for the workers alone."
        )
    return split


def measure_needs(info: ModelInfo, settings: ModelSettings, n_ctx: int) -> Needs:
    layers, others = layer_bytes(info)
    cache = (kv_cache_bytes(info, n_ctx, settings.kv_type) or 0) // max(info.layers, 1)
    step = min(N_BATCH, _STEP)
    computing = _BUFFERS + 4 * step * _WIDE * info.width + min(128 << 20, 4 * step * n_ctx * max(info.heads, 1))
    rows = 4 * 64 * info.vocabulary_size
    return Needs(
        tuple(count + cache for count in layers), sum(others.values()) + rows + 320 * info.vocabulary_size, computing
    )


def distribute(needs: Needs, free: Sequence[int], shares: Sequence[float] = ()) -> list[int] | None:
    """How many layers each takes, by `shares` or else by room; None if they do not fit so. The first is this machine.

    Layers differ in size here and there; the largest counts for all.
    """
    each = max(needs.layers, default=0) or 1
    room = [_SPARE * bytes_ - needs.computing for bytes_ in free]
    room[0] -= needs.around
    fits = [max(0, int(left // each)) for left in room]
    total = len(needs.layers)
    if room[0] < 0 or sum(fits) < total:
        return None
    if shares:
        counts = _rounded([share / sum(shares) * total for share in shares], total)
        return counts if all(count <= most for count, most in zip(counts, fits, strict=True)) else None
    known = [min(most, total) for most in fits]
    return _rounded([most / sum(known) * total for most in known], total, known)


def _rounded(wanted: Sequence[float], total: int, most: Sequence[int] | None = None) -> list[int]:
    """Whole numbers that add up to `total`, the largest remainders rounded up, none above its `most`."""
    most = most or [total] * len(wanted)
    counts = [min(int(want), limit) for want, limit in zip(wanted, most, strict=True)]
    while sum(counts) < total:
        open_ = [i for i, limit in enumerate(most) if counts[i] < limit]
        counts[max(open_, key=lambda i: wanted[i] - counts[i])] += 1
    return counts


def _too_little(
    info: ModelInfo, needs: Needs, names: Sequence[str], free: Sequence[int], n_ctx: int, split: bool
) -> str:
    there = ", ".join(f"{size(bytes_)} on {name}" for name, bytes_ in zip(names, free, strict=True))
    enough = sum(free) * _SPARE > needs.total + needs.computing * len(free)
    way_out = "change the split or leave it out" if split and enough else "add a worker, or set n_ctx lower"
    return f"{info.name} needs {size(needs.total)} with a context of {n_ctx} tokens, but free are {there}; {way_out}."
