"""`bench workers`, and the relay that stands in for a network."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress

import pytest

from omnidraft.bench import plans, workers
from omnidraft.bench.relay import relayed
from omnidraft.bench.report import json_lines, text
from omnidraft.bench.runner import Cells, Work
from omnidraft.settings.addresses import Address
from omnidraft.storage.paths import DataHome
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


def test_the_relay_delays_both_ways_and_keeps_the_order(echo):
    with relayed(echo, 0.05) as address, socket.create_connection((address.host, address.port)) as one:
        for _ in range(3):
            start = time.perf_counter()
            one.sendall(b"x" * 500)
            assert len(_all(one, 500)) == 500
            assert time.perf_counter() - start >= 0.1
        sent = b"".join(number.to_bytes(4, "big") for number in range(20_000))
        threading.Thread(target=one.sendall, args=(sent,), daemon=True).start()
        assert _all(one, len(sent)) == sent


def _all(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += one.recv(size - len(data))
    return data


@needs_rpc
@pytest.mark.timeout(900)
def test_a_small_run_says_the_same_text_at_every_delay(models, tmp_path):
    asked = plans.Workers(
        str(models / "tiny-drafter-f16.gguf"), 1, str(models / "tiny-target-a-f16.gguf"), regime="bundled", count=1,
        split="1,1", delays=("5",), tasks=("qa",), prompts=1, max_tokens=16,
    )  # fmt: skip
    reports = list(workers.run(asked, Work(DataHome(tmp_path), Cells(tmp_path), lambda _line: None)))
    rows = [json.loads(line) for line in json_lines(reports[-1])]
    assert [row["delay"] for row in rows] == [None, 5.0]
    assert all(row["same"] + row["near"] == row["answers"] == 2 for row in rows)
    assert rows[1]["costs"]["1"] >= 5.0
    assert any(line.startswith("one process") for line in text(reports[-1]))
