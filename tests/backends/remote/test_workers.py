"""Workers: who answers, what fits where, what is refused, and what bytes from strangers do to one."""

import random
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace

import psutil
import pytest

from omnidraft.backends.gguf.file import usable_info
from omnidraft.backends.remote import workers as spreading
from omnidraft.backends.remote.target_process import TargetProcess
from omnidraft.backends.remote.workers import Found, Needs, NoWorker, distribute, find, plan, probe
from omnidraft.errors import ModelError
from omnidraft.settings.config import ModelSettings
from omnidraft.settings.fields import Address
from tests.lent import Worker, named, needs_rpc, workers
from tests.serving import free_port


@pytest.fixture(scope="module")
def info(models):
    return usable_info(models / "tiny-target-a-f16.gguf")


@pytest.mark.parametrize(("layers", "around", "free", "split", "counts"), [
    (6, 0, [1000, 1000, 1000], (), [2, 2, 2]),
    (10, 0, [45, 1000, 1000], (), [2, 4, 4]),
    (10, 0, [1000, 22, 22], (), [7, 2, 1]),
    (10, 950, [1000, 1000], (), [0, 10]),  # what stays here takes its room
    (10, 960, [1000, 1000], (), None),
    (10, 0, [50, 50], (), None),
    (8, 0, [1000, 1000, 1000], (2, 1, 1), [4, 2, 2]),
    (7, 0, [1000, 1000, 1000], (0, 1, 1), [0, 4, 3]),
    (8, 0, [1000, 30, 1000], (0, 1, 1), None),
])  # fmt: skip
def test_layers_go_where_there_is_room_and_a_split_is_followed_or_refused(layers, around, free, split, counts):
    assert distribute(Needs((10,) * layers, around, 0), free, split) == counts


def answering(*memory: int) -> list[Found]:
    return [
        Found(Address("127.0.0.1", 50052 + i), "7.0.0", ((free, free),), 0.001) for i, free in enumerate(memory)
    ]  # fmt: skip


def test_the_plan_names_layers_and_says_what_is_missing(info, monkeypatch):
    monkeypatch.setattr(spreading, "find", lambda addresses: answering(10**9, 10**9))
    monkeypatch.setattr(spreading, "available_bytes", lambda: 10**9)
    settings = ModelSettings(n_ctx=512, workers="127.0.0.1:50052,127.0.0.1:50053", split="1,1,1")
    made = plan(info, settings, 512)
    assert (
        str(made) == "layers 1 to 2 on this machine, layers 3 to 4 on 127.0.0.1:50052, layers 5 to 6 on 127.0.0.1:50053"
    )
    assert [part.layers for part in plan(info, replace(settings, split="1,2"), 512).parts] == [0, 2, 4]
    with pytest.raises(ModelError, match="names 4 shares"):
        plan(info, replace(settings, split="1,1,1,1"), 512)
    monkeypatch.setattr(spreading, "find", lambda addresses: answering(10**6, 10**6))
    monkeypatch.setattr(spreading, "available_bytes", lambda: 10**6)
    with pytest.raises(ModelError, match=r"needs [\d.]+ MB with a context of 512 tokens, but free are 1\.0 MB on this"):
        plan(info, replace(settings, split=None), 512)


@contextmanager
def listening(answer):
    """A server that calls answer(connection) for everyone who comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", server.getsockname()[1])


def hello(*version: int):
    def answer(connection: socket.socket) -> None:
        connection.recv(33)
        connection.sendall(struct.pack("<Q", 28) + bytes(version) + bytes(25))
        connection.recv(64)

    return answer


@pytest.mark.parametrize(("answer", "said"), [
    (lambda c: c.close(), "not a worker"),
    (lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 200), "not a worker"),
    (lambda c: c.sendall(b"\xff" * 100), "not a worker"),
    (lambda c: time.sleep(1.5), "does not answer within 0.5 seconds"),
    (hello(6, 9, 1), r"speaks version 6\.9\.1 of the protocol, this machine 7\.0"),
    (hello(7, 1, 0), r"speaks version 7\.1\.0"),
    (hello(7, 0, 0), "not a worker"),
])  # fmt: skip
def test_what_answers_instead_of_a_worker_is_told_in_a_sentence(answer, said):
    with listening(answer) as address, pytest.raises(NoWorker, match=said):
        probe(address, 0.5)


def test_all_are_asked_and_each_answers_for_itself():
    found = find([Address("127.0.0.1", free_port()), Address("no-such-host.invalid", 5)])
    assert [type(one) for one in found] == [NoWorker, NoWorker]
    assert "leads nowhere" in str(found[1])


@needs_rpc
def test_a_worker_says_what_it_lends_and_keeps_to_its_limit(models):
    worker = Worker(memory=200 * 10**6)
    try:
        assert "200 MB" in worker.lends
        found = probe(worker.address, 60)
        assert found.version.startswith("7.0.")
        ((free, total),) = found.memory
        assert total == 200 * 10**6
        assert 150 * 10**6 < free <= total
        assert 0 < found.latency < 60
        settings = ModelSettings(threads=1, n_ctx=65536, workers=str(worker.address), split="0,1")
        with pytest.raises(ModelError, match=r"needs .*, but free are"):
            TargetProcess(models / "tiny-target-a-f16.gguf", settings)
        assert psutil.Process(worker.inner.pid).is_running()
    finally:
        worker.stop()
    with pytest.raises(NoWorker):
        probe(worker.address, 2.0)


@needs_rpc
def test_nobody_is_told_apart_from_busy(models):
    with workers(1) as running:
        settings = ModelSettings(threads=1, n_ctx=256, workers=named(running))
        target = models / "tiny-target-a-f16.gguf"
        busy = pytest.raises(NoWorker, match="may be at work for another program")
        with TargetProcess(target, settings), busy:
            probe(running[0].address, 1.0)
        assert probe(running[0].address, 60).memory


def strangers(worker: Worker, count: int, seed: int) -> int:
    """Send `count` random byte strings, half of them behind a proper greeting; how often the worker started again."""
    draw = random.Random(seed)
    greeting = struct.pack("<BQ", 14, 24) + bytes(24)
    for number in range(count):
        data = draw.randbytes(draw.choice([1, 9, 40, 300, 5000]))
        if number % 2:
            data = greeting + bytes([draw.randrange(18)]) + struct.pack("<Q", draw.choice([0, 4, 8, 16, 304])) + data
        with suppress(OSError), socket.create_connection((worker.address.host, worker.address.port), timeout=20) as one:
            one.sendall(data)
            one.settimeout(0.05)
            with suppress(OSError):
                one.recv(100)
    return sum("starts again" in line for line in worker.said)


def survives(worker: Worker, restarts: int) -> None:
    """It answers again, or has said that it gave up."""
    end = time.monotonic() + 120
    while True:
        try:
            assert probe(worker.address, 20).memory
            print(f"the worker started again {restarts} times")
            return
        except NoWorker:
            assert time.monotonic() < end
            time.sleep(0.2)


@needs_rpc
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("count", "seed"), [(30, 1), pytest.param(1000, 2, marks=pytest.mark.slow)])
def test_random_bytes_leave_a_worker_that_answers(count, seed):
    with workers(1) as running:
        survives(running[0], strangers(running[0], count, seed))
