"""A worker as its starter sees it: an inner process that serves, its events, its restarts; and what that process does.

llama.cpp's server may abort on what a client sends; the inner process is then started again on the same port. Knows
nothing of the terminal: events are sentences for whoever shows them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from omnidraft.backends.llama.devices import CPU, Device, lend, lent_devices, notice_lost_peers, tell_memory
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import ModelError, OmniDraftError
from omnidraft.format import size
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.fields import Address

_CAME, _WENT = "Accepted client connection", "Client connection closed"
_SOON = 5.0  # seconds: a process that ended sooner had a poor start
_POOR_STARTS = 5  # in a row, then it is given up
_STARTING = 60.0  # seconds until it must listen


@dataclass(frozen=True, slots=True)
class Lending:
    """What a worker lends and where. memory: most bytes; None: what the machine has free."""

    listen: Address
    threads: int = 0
    device: str | None = None
    cache_dir: Path | None = None
    memory: int | None = None


class WorkerProcess:
    """Started by `start`, ended by `stop`; `events` yields sentences meanwhile."""

    def __init__(self, lending: Lending) -> None:
        self.lending = lending
        self.lends = ""  # devices and memory, once it has started
        self._child: LineChild | None = None
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """Of the inner process."""
        return self._child.pid if self._child is not None else None

    @property
    def _running(self) -> LineChild:
        assert self._child is not None, "it was not started"
        return self._child

    def start(self) -> str:
        """Returns what it lends, in a sentence; ModelError if it cannot."""
        self._launch()
        return self.lends

    def events(self) -> Iterator[str]:
        """A sentence for every connection and restart, until `stop`. ModelError if it dies again and again."""
        poor = 0
        while not self._stopped:
            started = time.monotonic()
            for line in self._running.lines():
                if (said := self._said(line.strip())) is not None:
                    yield said
            code = self._running.process.wait()
            if self._stopped:
                return
            poor = poor + 1 if time.monotonic() - started < _SOON else 0
            if poor >= _POOR_STARTS:
                raise ModelError(f"The worker ended {poor} times right after its start ({_why(code)}); it is given up.")
            yield f"The connection brought the serving process down ({_why(code)}); it starts again."
            self._launch()

    def stop(self) -> None:
        """End it; harmless when repeated."""
        self._stopped = True
        if self._child is not None:
            self._child.kill()  # it holds nothing that could be lost
            self._child.ended()

    def _launch(self) -> None:
        lending = self.lending
        options = {**asdict(lending), "endpoint": f"{lending.listen.resolved()}:{lending.listen.port}"}
        del options["listen"]
        options["cache_dir"] = str(lending.cache_dir) if lending.cache_dir else None
        self._child = LineChild("omnidraft.backends.remote.worker_process", json.dumps(options), keeps_errors=False)
        try:
            self.lends = self._begun()
            self._await_listening()
        except BaseException:
            self.stop()
            raise

    def _begun(self) -> str:
        for line in self._running.lines():
            with suppress(ValueError):
                said = json.loads(line)
                if "failed" in said:
                    raise ModelError(said["failed"])
                lent = ", ".join(f"{one['name']} ({one['description']}, {size(one['free'])})" for one in said["lends"])
                return f"{lent}, {said['threads']} threads"
        raise ModelError(f"The worker could not start ({_why(self._running.process.wait())}).")

    def _await_listening(self) -> None:
        """Until the port is open. Asked of the system: a connection would look like a client."""
        end = time.monotonic() + _STARTING
        while time.monotonic() < end:
            if (code := self._running.process.poll()) is not None:
                where = self.lending.listen
                why = f"something else listens at {where}" if code == CANNOT_LISTEN else _why(code)
                raise ModelError(f"The worker could not start: {why}; choose another port with --listen.")
            with suppress(psutil.Error):
                connections = psutil.Process(self._running.pid).net_connections("tcp4")
                if any(one.status == psutil.CONN_LISTEN for one in connections):
                    return
            time.sleep(0.02)
        raise ModelError(f"The worker did not listen within {_STARTING:g} seconds.")

    def _said(self, line: str) -> str | None:
        if line == _CAME:
            self._running.say("\n")  # has it watch over the new connection
            return f"Connected: {self._client()}"
        return "Disconnected." if line == _WENT else None

    def _client(self) -> str:
        with suppress(psutil.Error):
            for one in psutil.Process(self._running.pid).net_connections("tcp4"):
                if one.status == psutil.CONN_ESTABLISHED and one.raddr:
                    return f"{one.raddr.ip}:{one.raddr.port}"
        return "somebody who has left already"


def _why(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


# What the inner process does: lends devices through llama.cpp's RPC server until it is ended. It opens no file of the
# user's and knows no data home. One JSON line on stdout says what is lent; the library's own lines follow. When stdin
# closes, the outer process is gone and this one ends.


CANNOT_LISTEN = 3  # exit code


def main(options: dict) -> int:
    """options: endpoint, threads, device, cache_dir, memory (bytes or None)."""
    system.leave_no_core()
    threading.Thread(target=_follow_outer, daemon=True).start()
    try:
        devices = lent_devices(options["device"])
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
    lend(options["endpoint"], devices, options["threads"] or physical_cores(), options["cache_dir"])
    return CANNOT_LISTEN


def _tell_true_memory(devices: list[Device], limit: int | None) -> None:
    """The processor's device calls all memory of the machine free; have it say what can be had."""
    for device in devices:
        if device.type == CPU:
            try:
                tell_memory(device, _memory(limit, device.total))
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
