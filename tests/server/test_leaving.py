"""Clients that go away without a word: whoever comes next does not wait for what nobody reads any more.

Real sockets, the real application and the bundled model, whose answers are slowed to what a large one takes.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable

import pytest

from tests.serving import Server, served

LONG = "Count to one thousand and tell me a story about every number."
MOST = 0.5  # seconds that an abandoned request may take from the next one


slow = served(settings="", PAUSE="0.05")  # an answer of 300 tokens takes 15 seconds here


def request(words: str, tokens: int, **more: object) -> bytes:
    body = json.dumps({"max_tokens": tokens, "messages": [{"role": "user", "content": words}], **more}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def sent(server: Server, data: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    client.sendall(data)
    return client


def short(server: Server) -> float:
    """Seconds that an answer of one token takes."""
    began = time.monotonic()
    body = {"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
    assert server.ask("POST", "/v1/chat/completions", body)[0] == 200
    return time.monotonic() - began


def unstreamed(server: Server) -> None:
    client = sent(server, request(LONG, 300))
    time.sleep(0.3)
    client.close()


def streamed(server: Server) -> None:
    client = sent(server, request(LONG, 300, stream=True))
    assert client.recv(4000)
    time.sleep(0.1)
    client.close()


def before_its_first_word(server: Server) -> None:
    client = sent(server, request(f"{LONG} " * 40, 300, stream=True))
    time.sleep(0.02)
    client.close()


def in_line(server: Server) -> None:
    """One that is written and, behind it, three that wait, half of them streams: all leave."""
    clients = [sent(server, request(LONG, 300, stream=turn % 2 == 0)) for turn in range(4)]
    time.sleep(0.3)
    for client in reversed(clients):
        client.close()


WAYS: list[Callable[[Server], None]] = [unstreamed, streamed, before_its_first_word, in_line]


def waits(server: Server, leave: Callable[[Server], None], times: int) -> list[float]:
    """How long the next one waited, sorted."""
    usual, found = min(short(server) for _ in range(3)), []
    for _ in range(times):
        leave(server)
        found.append(short(server) - usual)
    found.sort()
    print(f"{leave.__name__}: {times} times, median {found[times // 2]:.3f} s, longest {found[-1]:.3f} s")
    return found


@pytest.mark.parametrize("leave", WAYS)
def test_who_comes_behind_an_abandoned_request_does_not_wait_for_it(slow, leave):
    assert waits(slow, leave, 2)[0] <= 4 * MOST  # the quickest, and leniently: others use this machine too


@pytest.mark.slow
@pytest.mark.parametrize("leave", WAYS)
def test_nobody_ever_waits(slow, leave):
    """On a machine that does nothing else."""
    assert waits(slow, leave, 50)[-1] <= MOST
