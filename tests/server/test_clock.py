"""A clock that is set forth and back by a day, all the time, while people sign in and are answered."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from omnidraft.profiles.accounts import add_account
from tests.serving import SETTINGS, Server, write_settings

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def asked(server, method: str, path: str, body: str = "", headers: dict | None = None) -> tuple[int, dict, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, body, headers or {})
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read()
    connection.close()
    return found


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    add_account(tmp_path / "accounts", "ada", "correct horse battery")
    made = Server(tmp_path / "app", ["--auth-file", str(tmp_path / "accounts")], {"CLOCK_DAYS": "31"})
    write_settings(made, SETTINGS, "ada")
    yield made.start()
    made.kill()


def test_who_signed_in_stays_and_is_answered(server):
    right = urlencode({"name": "ada", "password": "correct horse battery"})
    for _ in range(5):
        assert asked(server, "POST", "/login", urlencode({"name": "ada", "password": "wrong"}), FORM)[0] == 401
    status, headers, _ = asked(server, "POST", "/login", right, FORM)
    assert status == 429, "waits are kept whatever the clock says"
    while status == 429:
        status, headers, _ = asked(server, "POST", "/login", right, FORM)
    assert status == 303
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0], "Content-Type": "application/json"}
    body = json.dumps({"max_tokens": 12, "messages": [{"role": "user", "content": "What is 2 + 3?"}]})
    texts = set()
    for _ in range(10):
        status, _, said = asked(server, "POST", "/v1/chat/completions", body, cookie)
        assert status == 200, said
        done = json.loads(said)
        texts.add(done["choices"][0]["message"]["content"])
        assert 0 <= done["omnidraft"]["tokens_per_second"] < 1e5
    assert len(texts) == 1
    assert "Traceback" not in server.log
