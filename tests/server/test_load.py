"""Many clients at once: all are answered in the order they came or told when to come again, and nothing piles up."""

from __future__ import annotations

import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import psutil
import pytest

from tests.serving import served

MODELS = ("tiny-target-a-f16", "tiny-target-b-f16", "tiny-target-a2-f16")
CLIENTS = 8
pytestmark = pytest.mark.skipif(not hasattr(psutil.Process, "num_fds"), reason="open files are counted so elsewhere")


server = served()  # its memory and its files are counted


def post(server, body: dict) -> tuple[int, dict, bytes]:
    return server.ask("POST", "/v1/chat/completions", body)


def asking(words: str, tokens: int = 12, **more) -> dict:
    return {"model": MODELS[0], "max_tokens": tokens, "messages": [{"role": "user", "content": words}], **more}


@dataclass
class ClientAnswers:
    """What clients got: answers by client, refusals, and everything else."""

    answered: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    refused: int = 0
    odd: list = field(default_factory=list)

    def client(self, server, number: int, until: float, least: int) -> None:
        for turn in itertools.count():
            if turn >= least and time.monotonic() > until:
                return
            status, headers, body = post(server, asking(f"What is {number} + {turn}?"))
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
