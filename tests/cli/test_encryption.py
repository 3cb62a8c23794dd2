"""Encrypted data from the command line: `--encrypt`, the command `encryption`, app.py, and passphrases that are missing
or wrong."""

from __future__ import annotations

import os
import sys

import pytest

import app
from omnidraft.chats import ChatStore
from omnidraft.processes import system
from omnidraft.storage.encryption import header
from omnidraft.storage.encryption.passphrase import NEW_VARIABLE, VARIABLE
from omnidraft.storage.vault import HEADER
from tests.storage.encryption.homes import PASSPHRASE, QUICK, found

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")

TITLE = "Zanzibarquux"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """What makes guessing slow makes tests slow; nobody sits at a terminal."""
    monkeypatch.setattr(header, "COST", QUICK)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def root(home):
    with ChatStore(home.profile().chats) as store:
        store.create(TITLE)
    return home.root


@pytest.fixture
def file(tmp_path):
    (tmp_path / "passphrase").write_text(f"{PASSPHRASE}\n")
    return str(tmp_path / "passphrase")


def test_any_command_encrypts_and_afterwards_asks(root, cli, file, monkeypatch):
    code, out, _ = cli("profile", "--encrypt", "--passphrase-file", file, "show", "--chats")
    assert code == 0
    assert TITLE in out
    assert not found(root, [TITLE.encode()])
    code, out, err = cli("profile", "show", "--chats")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "is encrypted: start OmniDraft on a terminal" in err
    monkeypatch.setenv(VARIABLE, "not this one")
    code, out, err = cli("profile", "show", "--chats")
    assert (code, out, err) == (2, "", "omnidraft: That is not the passphrase of this data; nothing was changed.\n")
    monkeypatch.setenv(VARIABLE, PASSPHRASE)
    assert TITLE in cli("profile", "show", "--chats")[1]


def test_without_a_passphrase_nothing_is_encrypted(root, cli):
    code, _, err = cli("profile", "--encrypt", "list")
    assert code == 2
    assert "Encrypting needs a passphrase" in err
    assert not (root / HEADER).exists()


def test_the_command_encrypts_changes_and_takes_back(root, cli, file, monkeypatch):
    assert "is not encrypted" in cli("encryption", "status")[1]
    assert "is encrypted." in cli("encryption", "on", "--passphrase-file", file)[1]
    assert "is encrypted." in cli("encryption", "status")[1]
    monkeypatch.setenv(NEW_VARIABLE, "short")
    assert cli("encryption", "change", "--passphrase-file", file)[0] == 2
    monkeypatch.setenv(NEW_VARIABLE, "another passphrase")
    assert "another passphrase now" in cli("encryption", "change", "--passphrase-file", file)[1]
    assert cli("encryption", "off", "--passphrase-file", file)[0] == 2
    monkeypatch.setenv(VARIABLE, "another passphrase")
    assert "not encrypted any more" in cli("encryption", "off")[1]
    assert TITLE in cli("profile", "show", "--chats")[1]
    assert cli("encryption", "off")[2].endswith("is not encrypted.\n")


@pytest.mark.parametrize(("passphrase", "sentence"), [
    (None, "is encrypted: start OmniDraft on a terminal"), ("not this one", "That is not the passphrase"),
])  # fmt: skip
def test_the_app_does_not_start_without_the_passphrase(root, cli, file, capsys, monkeypatch, passphrase, sentence):
    cli("encryption", "on", "--passphrase-file", file)
    if passphrase is not None:
        monkeypatch.setenv(VARIABLE, passphrase)
    assert app.main(["--data-dir", str(root), "--port", "59673"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert sentence in err
