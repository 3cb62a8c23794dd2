"""How the app starts and idles: what is refused before anything is served, such as a data home that is in use, and what
it takes while nobody does anything."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

import app
from omnidraft.storage.scratch import FileLock
from tests.ui.conftest import Server, free_port


def started(tmp_path, *arguments: str) -> int:
    return app.main(["--port", str(free_port()), "--data-dir", str(tmp_path / "home"), *arguments])


@pytest.fixture(autouse=True)
def serving(monkeypatch):
    """How often anything was served."""
    import ui.server

    served = []
    monkeypatch.setattr(ui.server, "serve", lambda *given: served.append(given))
    return served


@pytest.mark.parametrize(("option", "told"), [
    ("--target", "There is no model file or known model named nope."),
    ("--drafter", "There is no model file or known model named nope."),
])  # fmt: skip
def test_what_is_not_there_is_refused(tmp_path, capsys, serving, option, told):
    assert started(tmp_path, option, "nope") == 2
    assert told in capsys.readouterr().err
    assert serving == []


def test_a_data_home_is_served_once(tmp_path, capsys, serving):
    held = FileLock(tmp_path / "home" / "app.lock")
    assert held.acquire()
    assert started(tmp_path) == 2
    assert "Another OmniDraft is running with the data in" in capsys.readouterr().err
    assert serving == []
    held.release()
    assert started(tmp_path, "--target", "tiny-target-b") == 0
    assert started(tmp_path) == 0, "the one before has ended"
    assert len(serving) == 2


def test_what_it_does_not_know_in_a_data_home_stays(tmp_path, serving):
    file, folder = tmp_path / "home/accounts.json", tmp_path / "home/profiles/ada"
    folder.mkdir(parents=True)
    file.write_text("ada:c2FsdA==:aGFzaA==\n")
    assert started(tmp_path, "--profile", "ada") == 0
    assert len(serving) == 1
    assert file.read_text() == "ada:c2FsdA==:aGFzaA==\n"


# Next to nothing: the processor belongs to the model.


SECONDS = 3


def wakes(server: Server) -> int:
    """How often any thread of the app went to sleep since it started, and so how often it woke."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    found = (re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M) for task in tasks)
    return sum(int(one[1]) for one in found if one)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counted in /proc")
def test_an_app_that_nobody_uses_sleeps(server):
    time.sleep(1)
    before = wakes(server)
    time.sleep(SECONDS)
    assert (wakes(server) - before) / SECONDS < 150
