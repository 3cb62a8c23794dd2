"""What is refused before anything is served: models that are not there, and a data home that is in use."""

from __future__ import annotations

import pytest

import app
from omnidraft.profiles.accounts import add_account
from omnidraft.storage.scratch import FileLock
from tests.ui.conftest import free_port


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
    ("--drafter", "There is no model file or known model named nope."), ("--template", "There is no chat template"),
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


@pytest.mark.parametrize(
    ("host", "more"), [("0.0.0.0", []), ("::", []), ("nas.lan", []), ("192.168.1.5", ["--api-key", "s3cret"])]
)
def test_other_machines_are_served_only_with_accounts(tmp_path, capsys, serving, host, more):
    assert started(tmp_path, "--host", host, *more) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"--host {host} would show every conversation to other machines" in said
    assert "--auth-file" in said
    assert serving == []


def test_with_accounts_other_machines_are_served(tmp_path, serving):
    add_account(tmp_path / "accounts", "ada", "correct horse")
    assert started(tmp_path, "--host", "0.0.0.0", "--auth-file", str(tmp_path / "accounts")) == 0
    assert [given[1] for given in serving] == ["0.0.0.0"]
