"""Workers for a benchmark and the network to them: network namespaces of their own, or plain loopback.

With root and Linux every worker runs in a namespace behind a pair of virtual cards; `tc netem` delays them where the
kernel has it. Elsewhere a relay on loopback delays (relay.py). All of it goes when the block ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from omnidraft.backends.remote.environment import ROOT, quiet_environment
from omnidraft.bench.relay import Relay
from omnidraft.errors import ModelError
from omnidraft.settings.addresses import DEFAULT_PORT, Address

_PREFIX = "omnidraft-"


@dataclass(slots=True)
class Line:
    """The way to one worker. address: where the main program finds it."""

    address: Address
    card: str | None = None  # of the namespace's pair, on this side
    relay: Relay | None = None

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes sent to the worker and received from it so far; over cards with everything a packet carries."""
        if self.relay is not None:
            return self.relay.sent, self.relay.received
        folder = Path("/sys/class/net", self.card or "lo", "statistics")
        return int((folder / "tx_bytes").read_text()), int((folder / "rx_bytes").read_text())


@dataclass(slots=True)
class Network:
    """kind: how it is made, for the report."""

    kind: str
    lines: list[Line]

    @property
    def workers(self) -> str:
        return ", ".join(str(line.address) for line in self.lines)

    @property
    def bytes(self) -> tuple[int, int]:
        both = [line.bytes for line in self.lines]
        return sum(sent for sent, _ in both), sum(received for _, received in both)


@contextmanager
def network(count: int, delay_ms: float, threads: int = 0) -> Iterator[Network]:
    """`count` workers whose round trips take `delay_ms` longer than the machine itself needs."""
    _sweep()
    with ExitStack() as stack:
        apart = can_separate()
        delayed = bool(apart and delay_ms and has_netem())
        lines = []
        for number in range(count):
            line = _namespace(stack, number, delay_ms if delayed else 0.0) if apart else Line(Address("127.0.0.1", 1))
            line.address = _worker(stack, line, number, apart, threads)
            if not apart or (delay_ms and not delayed):
                line.relay = Relay(line.address, delay_ms / 2000)
                stack.callback(line.relay.close)
                line.address = line.relay.address
            lines.append(line)
        way = "netem" if delayed else "relay" if lines and lines[0].relay else "no delay"
        yield Network(f"{'namespaces' if apart else 'loopback'}, {way}", lines)


def can_separate() -> bool:
    """Whether namespaces can be made here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    made = _ip("netns", "add", _name("try"))
    _ip("netns", "del", _name("try"))
    return made


def has_netem() -> bool:
    """Whether this kernel can delay packets."""
    if not _ip("link", "add", "odt0", "type", "veth", "peer", "name", "odt1"):
        return False
    try:
        return _run("tc", "qdisc", "add", "dev", "odt0", "root", "netem", "delay", "1ms")
    finally:
        _ip("link", "del", "odt0")


def _name(of: object) -> str:
    return f"{_PREFIX}{os.getpid()}-{of}"


def _host(number: int, host: int) -> str:
    """An address in a net that other runs at the same time hardly have."""
    process = os.getpid()
    return f"10.{128 + process % 120}.{(process // 120 + number) % 256}.{host}"


def _sweep() -> None:
    """Take away what runs that were killed have left: their cards go with the namespaces."""
    folder = Path("/run/netns")
    for left in folder.glob(f"{_PREFIX}*-*") if folder.is_dir() else ():
        process = left.name.removeprefix(_PREFIX).partition("-")[0]
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            _ip("netns", "del", left.name)


def _namespace(stack: ExitStack, number: int, delay_ms: float) -> Line:
    name, card, inner = _name(number), f"od{os.getpid() % 100000}-{number}", f"odi{os.getpid() % 100000}-{number}"
    here, there = (_host(number, host) for host in (1, 2))
    _must(_ip("netns", "add", name))
    stack.callback(_ip, "netns", "del", name)
    _must(_ip("link", "add", card, "type", "veth", "peer", "name", inner, "netns", name))
    stack.callback(_ip, "link", "del", card)
    for part, where, of in (((), here, card), (("-n", name), there, inner)):
        _must(_ip(*part, "addr", "add", f"{where}/24", "dev", of))
        _must(_ip(*part, "link", "set", of, "up"))
    _must(_ip("-n", name, "link", "set", "lo", "up"))
    if delay_ms:
        each = ("root", "netem", "delay", f"{delay_ms / 2:g}ms", "limit", "100000")
        _must(_run("tc", "qdisc", "add", "dev", card, *each))
        _must(_run("tc", "-n", name, "qdisc", "add", "dev", inner, *each))
    return Line(Address(there, DEFAULT_PORT), card)


def _worker(stack: ExitStack, line: Line, number: int, apart: bool, threads: int) -> Address:
    """Start a worker as people do, and wait until it says that it is there."""
    listen = line.address if apart else Address("127.0.0.1", _free_port())
    before: Sequence[str] = ("ip", "netns", "exec", _name(number)) if apart else ()
    arguments = ("worker", "--listen", str(listen), "--threads", str(threads), "--trusted-network")
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "omnidraft", *arguments], cwd=ROOT, env=quiet_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    stack.callback(_end, process)
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if not said.startswith("Lending"):
        raise ModelError(f"A worker did not start: {said or 'it said nothing'}.")
    return listen


def _end(process: subprocess.Popen) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _ip(*arguments: str) -> bool:
    return _run("ip", *arguments)


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _must(done: bool) -> None:
    if not done:
        raise ModelError("A network namespace could not be set up; run the benchmark without root to use loopback.")
