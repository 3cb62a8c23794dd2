"""A clock that is set forth and back by a month, all the time, while questions are answered and learned from."""

from __future__ import annotations

import json
import runpy
import time

import pytest

from omnidraft.learning.material.history import History
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ask, open_assistant
from tests.serving import ROOT
from tests.until import until

JUMPING = ROOT / "tests/jumping_clock"


@pytest.mark.slow
def test_answers_are_the_same(make_server):
    server = make_server(PYTHONPATH=str(JUMPING))
    body = {"max_tokens": 12, "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
    texts = set()
    for _ in range(10):
        status, _, said = server.ask("POST", "/v1/chat/completions", body)
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
