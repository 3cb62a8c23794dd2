"""Many clients at once: all are answered in the order they came or told when to come again, and nothing piles up."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median

import psutil
import pytest
from fastapi import FastAPI, Request
from starlette.testclient import TestClient

from tests.serving import ROOT
from ui.server import server_config

MODELS = ("tiny-target-a-f16", "tiny-target-b-f16", "tiny-target-a2-f16")
CLIENTS = 8
pytestmark = pytest.mark.skipif(not hasattr(psutil.Process, "num_fds"), reason="open files are counted so elsewhere")


def post(server, body: dict, headers: dict | None = None) -> tuple[int, dict, bytes]:
    return server.ask("POST", "/v1/chat/completions", body, headers)


def asking(words: str, tokens: int = 12, **more) -> dict:
    return {"model": MODELS[0], "max_tokens": tokens, "messages": [{"role": "user", "content": words}], **more}


@dataclass
class ClientAnswers:
    """What clients got: answers by client, refusals, and everything else."""

    answered: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    waits: list[float] = field(default_factory=list)
    refused: int = 0
    odd: list = field(default_factory=list)

    def client(self, server, number: int, until: float, least: int) -> None:
        for turn in itertools.count():
            if turn >= least and time.monotonic() > until:
                return
            began = time.monotonic()
            status, headers, body = post(server, asking(f"What is {number} + {turn}?"))
            self.waits.append(time.monotonic() - began)
            if status == 200 and json.loads(body)["choices"][0]["finish_reason"]:
                self.answered[number] += 1
            elif status == 429 and int(headers["retry-after"]) >= 1:
                self.refused += 1
                time.sleep(1)
            else:
                self.odd.append((status, body))
                return


def many(server, seconds: float, least: int) -> ClientAnswers:
    heard, until = ClientAnswers(), time.monotonic() + seconds
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda number: heard.client(server, number, until, least), range(CLIENTS)))
    assert heard.odd == []
    return heard


def abandon(server) -> float:
    """Begin a long stream and leave it; seconds until another answer has begun."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    body = json.dumps(asking("Count to one thousand.", 4000, stream=True))
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    for _ in range(6):
        reply.readline()
    reply.close()
    connection.close()
    left = time.monotonic()
    status, _, _ = post(server, asking("Hi", 1))
    assert status == 200
    return time.monotonic() - left


def uploads_without_end(server) -> None:
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(1000):
            client.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            time.sleep(0.02)


def sends_by_drops(server) -> None:
    body = json.dumps(asking("Hi", 4000, stream=True)).encode()
    with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n\r\n")
        for byte in body:
            client.sendall(bytes([byte]))
            time.sleep(0.3)


def leaves(server) -> None:
    """Asks for a long answer and goes away, in line or while it is written."""
    body = json.dumps(asking("Count to one thousand.", 4000)).encode()
    with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        time.sleep(2)


def runs_beside(server) -> None:
    """Another program with the same data."""
    command = [sys.executable, "-m", "omnidraft", "profile", "list", "--data-dir", str(server.data / "home")]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    time.sleep(10)


@contextmanager
def beside(server, *ways: Callable) -> Iterator[None]:
    """One of each, again and again, until the block ends."""
    over = threading.Event()

    def repeat(way: Callable) -> None:
        while not over.is_set():
            way(server)

    threads = [threading.Thread(target=repeat, args=(way,)) for way in ways]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in threads:
            one.join()


def held(server) -> tuple[float, int, int]:
    """MB, open files and threads of the server."""
    process = psutil.Process(server.process.pid)
    return process.memory_info().rss / 1e6, process.num_fds(), process.num_threads()


def test_who_comes_when_too_many_wait_is_told_when_to_come_again(server):
    assert post(server, asking("Hi", 1))[0] == 200  # the model is loaded
    with ThreadPoolExecutor(48) as clients:
        statuses = list(clients.map(lambda _: post(server, asking("Tell me a story.", 24)), range(48)))
    refused = [headers for status, headers, _ in statuses if status == 429]
    assert {status for status, _, _ in statuses} <= {200, 429}
    assert len(statuses) - len(refused) >= 33  # the line, and the one at work
    assert all(int(headers["retry-after"]) >= 1 for headers in refused)
    assert refused
    assert post(server, asking("Hi", 1))[0] == 200


def test_switching_models_leaves_nothing_behind(server):
    switch(server, 6, 12)  # the allocator reaches its size within the first ones


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_switches_leave_nothing_behind(server):
    switch(server, 200, 20)


def switch(server, times: int, warm: int) -> None:
    names = itertools.cycle(MODELS)
    for _ in range(warm):
        assert post(server, asking("Hi", 2, model=next(names)))[0] == 200
    before = held(server)
    for _ in range(times - times % len(MODELS)):
        assert post(server, asking("Hi", 2, model=next(names)))[0] == 200
    after = held(server)
    print("before and after", times, "switches (MB, files, threads):", before, after)
    assert after[0] < before[0] * 1.15
    assert after[1] <= before[1] + 4
    assert after[2] <= before[2] + 8  # the server's pool of threads grows to its size once


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_minutes_of_load_leave_memory_flat(server, pytestconfig):
    minutes = pytestconfig.getoption("--minutes")
    many(server, minutes * 60 / 5, 2)  # until caches and pools have their size
    before = held(server)
    heard = many(server, minutes * 60, 2)
    after = held(server)
    print(f"{minutes} minutes: {heard.answered}, {heard.refused} refused; before and after: {before} {after}")
    assert after[0] <= before[0] * 1.05
    assert min(heard.answered) >= 0.8 * max(heard.answered) - 1
    assert abandon(server) < 5.0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_careless_clients_cost_the_others_little(make_server, pytestconfig):
    """Answers take what a large model takes; who leaves, drips, uploads without end, and a second program beside."""
    server, seconds = make_server(PAUSE="0.05"), pytestconfig.getoption("--minutes") * 60
    many(server, 0, 1)
    alone = many(server, seconds / 5, 2).waits
    with beside(server, leaves, sends_by_drops, uploads_without_end, runs_beside):
        among = many(server, seconds, 2).waits
    for who, waits in (("alone", alone), ("among careless ones", among)):
        print(f"{CLIENTS} clients {who}: {len(waits)} waits, median {median(waits):.2f} s, longest {max(waits):.2f} s")
    assert median(among) <= 1.2 * median(alone)


def test_nobodys_word_is_taken_for_where_a_request_comes_from(make_server, tmp_path):
    """Or whoever guesses passwords would have a new address each time."""
    from omnidraft.profiles.accounts import add_account

    add_account(tmp_path / "accounts", "ada", "correct horse battery")
    server = make_server("--auth-file", str(tmp_path / "accounts"))
    seen = []
    for number in range(8):
        told = {
            "Authorization": "Bearer ada:wrong",
            "X-Forwarded-For": f"10.0.0.{number}",
            "Forwarded": f"for=10.0.0.{number}",
        }
        seen.append(post(server, asking("Hi", 1), told)[0])
    assert seen[:5] == [401] * 5
    assert 429 in seen


@pytest.mark.parametrize(
    ("proxies", "seen"), [((), "127.0.0.1"), (("127.0.0.1",), "10.0.0.9"), (("10.1.1.1",), "127.0.0.1")]
)
def test_only_a_proxy_that_is_named_says_where_a_request_comes_from(proxies, seen):
    app = FastAPI()

    @app.get("/who")
    def who(request: Request) -> str:
        return request.client.host

    config = server_config(app, "127.0.0.1", 1, proxies)
    config.load()
    with TestClient(config.loaded_app, client=("127.0.0.1", 5)) as asking_client:
        assert asking_client.get("/who", headers={"X-Forwarded-For": "10.0.0.9"}).json() == seen
