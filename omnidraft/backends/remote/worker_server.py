"""What a worker's inner process does: lends devices through llama.cpp's RPC server until it is ended.

Run by worker_process.py, which starts it again if a client's bytes bring it down. It opens no file of the user's and
knows no data home. One JSON line on stdout says what is lent; the library's own lines follow. When stdin closes, the
outer process is gone and this one ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil

from omnidraft.backends.llama.devices import CPU, Device
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.backends.remote import rpc
from omnidraft.backends.remote.rpc import notice_lost_peers
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.processes import system
from omnidraft.processes.threads import physical_cores

CANNOT_LISTEN = 3  # exit code


def main(options: dict) -> int:
    """options: endpoint, threads, device, cache_dir, memory (bytes or None)."""
    system.leave_no_core()
    threading.Thread(target=_follow_outer, daemon=True).start()
    try:
        devices = rpc.lent_devices(options["device"])
        limit = options["memory"]
        if limit is not None:
            with suppress(AttributeError):  # where the system can, it refuses more; what is held counts on Linux only
                system.limit_memory(psutil.Process().memory_info().data + limit)
        _tell_true_memory(devices, limit)
    except OmniDraftError as error:
        print(json.dumps({"failed": str(error)}), flush=True)
        return 2
    lent = [_described(device, limit) for device in devices]
    print(json.dumps({"lends": lent, "threads": options["threads"] or physical_cores()}), flush=True)
    rpc.serve(
        options["endpoint"], devices, options["threads"] or physical_cores(), options["cache_dir"]
    )  # fmt: skip
    return CANNOT_LISTEN


def _tell_true_memory(devices: list[Device], limit: int | None) -> None:
    """The processor's device calls all memory of the machine free; have it say what can be had."""
    for device in devices:
        if device.type == CPU:
            try:
                rpc.tell_memory(device, _memory(limit, device.total))
            except ModelError:
                if limit is not None:
                    raise


def _described(device: Device, limit: int | None) -> dict:
    free = device.free if device.type != CPU else _memory(limit, device.total)()[0]
    return {"name": device.name, "description": device.description, "free": free}


def _memory(limit: int | None, total: int) -> Callable[[], tuple[int, int]]:
    """(free, total) bytes as they are when asked: what the system can give, at most what is left of the limit."""
    own = psutil.Process()
    begun = own.memory_info().rss

    def ask() -> tuple[int, int]:
        free = available_bytes()
        free = total if free is None else free
        if limit is None:
            return free, total
        return max(0, min(free, limit - (own.memory_info().rss - begun))), min(limit, total)

    return ask


def _follow_outer() -> None:
    """Every line says that a client has come; the end, that the outer process is gone."""
    for _line in sys.stdin:
        notice_lost_peers()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
