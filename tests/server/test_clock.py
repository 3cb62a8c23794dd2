"""A clock that is set forth and back by a month, all the time, while people sign in, are answered and learned from."""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from omnidraft.learning.material.history import History
from omnidraft.profiles.accounts import add_account
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ask, open_assistant, until
from tests.serving import ROOT, SETTINGS, Server, write_settings

JUMPING = ROOT / "tests/jumping_clock"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    add_account(tmp_path / "accounts", "ada", "correct horse battery")
    made = Server(tmp_path / "app", ["--auth-file", str(tmp_path / "accounts")], {"PYTHONPATH": str(JUMPING)})
    write_settings(made, SETTINGS, "ada")
    yield made.start()
    made.kill()


def test_who_signed_in_stays_and_is_answered(server):
    right = urlencode({"name": "ada", "password": "correct horse battery"})
    for _ in range(5):
        assert server.ask("POST", "/login", urlencode({"name": "ada", "password": "wrong"}), FORM)[0] == 401
    status, headers, _ = server.ask("POST", "/login", right, FORM)
    assert status == 429, "waits are kept whatever the clock says"
    while status == 429:
        status, headers, _ = server.ask("POST", "/login", right, FORM)
    assert status == 303
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0], "Content-Type": "application/json"}
    body = json.dumps({"max_tokens": 12, "messages": [{"role": "user", "content": "What is 2 + 3?"}]})
    texts = set()
    for _ in range(10):
        status, _, said = server.ask("POST", "/v1/chat/completions", body, cookie)
        assert status == 200, said
        done = json.loads(said)
        texts.add(done["choices"][0]["message"]["content"])
        assert 0 <= done["omnidraft"]["tokens_per_second"] < 1e5
    assert len(texts) == 1
    assert "Traceback" not in server.log


@pytest.mark.slow
def test_what_is_learned_is_served_and_measured(tmp_path, models, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(JUMPING))
    monkeypatch.setattr(time, "time", time.time)
    runpy.run_path(str(JUMPING / "sitecustomize.py"))
    home = find_data_home(tmp_path / "home")
    assistant = open_assistant(home, models)
    ask(assistant, range(12))
    until(lambda: assistant.learner.status().served, "an update")
    assistant.close()
    history = History(home.profile().metrics)
    (update, *_) = reversed(history.updates())
    history.close()
    assert update.outcome == "published"
    assert 0 < update.seconds < 1000
