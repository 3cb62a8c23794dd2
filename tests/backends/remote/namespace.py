"""A worker in a network namespace of its own, behind a pair of virtual cards: a cable that can be pulled.

Needs root and Linux. All of it goes when the block ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from omnidraft.processes.children import ROOT

NAME, CARD, INNER = (f"{name}{os.getpid()}" for name in ("omnidraft-", "od", "odi"))
HERE, THERE = (f"10.{128 + os.getpid() % 120}.{os.getpid() // 120 % 256}.{host}" for host in (1, 2))
PORT = 50052


def can_separate() -> bool:
    """Whether namespaces can be made here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    made = _ip("netns", "add", f"{NAME}-try")
    _ip("netns", "del", f"{NAME}-try")
    return made


def pull(out: bool) -> None:
    """Pull the cable out, so that no packet passes, no reset, nothing, or put it in again."""
    assert _ip("link", "set", CARD, "down" if out else "up")


@contextmanager
def worker() -> Iterator[str]:
    """The address of a worker behind the cable."""
    with ExitStack() as closing:
        assert _ip("netns", "add", NAME)
        closing.callback(_ip, "netns", "del", NAME)
        assert _ip("link", "add", CARD, "type", "veth", "peer", "name", INNER, "netns", NAME)
        closing.callback(_ip, "link", "del", CARD)
        for where, address, card in (((), HERE, CARD), (("-n", NAME), THERE, INNER)):
            assert _ip(*where, "addr", "add", f"{address}/24", "dev", card)
            assert _ip(*where, "link", "set", card, "up")
        arguments = ("worker", "--listen", f"{THERE}:{PORT}", "--threads", "1", "--trusted-network")
        process = subprocess.Popen(
            ["ip", "netns", "exec", NAME, sys.executable, "-m", "omnidraft", *arguments], cwd=ROOT,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            closing.callback(process.terminate)
            assert process.stdout.readline().startswith("Lending")
            yield f"{THERE}:{PORT}"
            process.terminate()


def _ip(*arguments: str) -> bool:
    try:
        return subprocess.run(["ip", *arguments], capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
