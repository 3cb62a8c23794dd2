"""The benchmark over workers, and the relay that stands in for a network."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest

from omnidraft.__main__ import main
from omnidraft.bench import workers
from omnidraft.bench.relay import Relay
from omnidraft.settings.addresses import Address
from omnidraft.storage.paths import find_data_home
from tests.lent import needs_rpc


@pytest.fixture
def echo():
    """A server that sends everything back."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    one, _ = server.accept()
                    threading.Thread(target=back, args=(one,), daemon=True).start()

        def back(one: socket.socket) -> None:
            with one, suppress(OSError):
                while data := one.recv(1000):
                    one.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", server.getsockname()[1])


def test_the_relay_delays_both_ways_and_counts(echo):
    relay = Relay(echo, 0.05)
    try:
        with socket.create_connection((relay.address.host, relay.address.port)) as one:
            for _ in range(3):
                start = time.perf_counter()
                one.sendall(b"x" * 500)
                assert len(_all(one, 500)) == 500
                assert time.perf_counter() - start >= 0.1
        assert (relay.sent, relay.received) == (1500, 1500)
    finally:
        relay.close()


def test_a_cut_relay_lets_nothing_through_and_a_mended_one_does(echo):
    relay = Relay(echo)
    try:
        with socket.create_connection((relay.address.host, relay.address.port)) as one:
            relay.cut()
            one.settimeout(0.3)
            one.sendall(b"lost")
            with pytest.raises(TimeoutError):
                one.recv(10)
            relay.mend()
        with socket.create_connection((relay.address.host, relay.address.port), timeout=20) as one:
            one.sendall(b"found")
            assert _all(one, 5) == b"found"
    finally:
        relay.close()


def _all(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += one.recv(size - len(data))
    return data


@needs_rpc
@pytest.mark.timeout(900)
def test_a_small_run_says_the_same_text_at_every_delay(models, tmp_path):
    plan = workers.Plan("bundled", ["qa"], 1, 16, 0.0, [5.0], workers=1, split="1,1", threads=1)
    rows = list(
        workers.run(find_data_home(tmp_path), plan, models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf")
    )
    assert [row.delay for row in rows] == [None, 5.0]
    assert rows[0].where == "one process"
    assert all(row.same + row.near == row.answers == 2 for row in rows)
    assert rows[1].costs[1] >= 5.0
    assert rows[0].sent == {"plain": 0, "adaptive": 0}
    assert rows[1].sent["plain"] > 1000
    assert "child" in workers.line(rows[1])


@pytest.mark.parametrize("arguments", [
    ["--count", "0"], ["--count", "17"], ["--delays", "x"], ["--delays", "-1"], ["--prompts", "0"], ["--split", "x"],
    ["--adapter", "no-such.gguf"],
])  # fmt: skip
def test_wrong_arguments(arguments, tmp_path, capsys):
    assert main(["bench", "workers", "--data-dir", str(tmp_path), *arguments]) == 2
    assert capsys.readouterr().err.startswith("omnidraft: ")
