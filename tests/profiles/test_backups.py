"""Backups: whole, encrypted where the data is, gone when the result was opened, and never with what was forgotten."""

from __future__ import annotations

import argparse
import os
import zipfile

import pytest

from omnidraft.cli.data import opened
from omnidraft.errors import StorageError
from omnidraft.learning.material.history import APPLICATION_ID, MIGRATIONS, History
from omnidraft.processes import system
from omnidraft.profiles.backups import back_up, back_up_all
from omnidraft.profiles.folders import backups_of, delete_profile, describe_profile
from omnidraft.profiles.forget import forget_everything
from omnidraft.profiles.importing import import_profile
from omnidraft.storage.database import open_database
from omnidraft.storage.encryption import header, make_plain
from omnidraft.storage.vault import is_sealed
from tests.profiles.conftest import contents
from tests.storage.encryption.homes import PASSPHRASE, QUICK, asked


@pytest.fixture
def start(home, tmp_path, monkeypatch):
    """A start of a program with this home, as the commands make it."""
    monkeypatch.setattr(header, "COST", QUICK)
    (tmp_path / "passphrase").write_text(PASSPHRASE)

    def start(encrypt: bool = False):
        return opened(argparse.Namespace(data_dir=home.root, passphrase_file=tmp_path / "passphrase", encrypt=encrypt))

    return start


needs_memory = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")


def test_a_backup_is_imported_as_what_it_was_made_of(home, ada, pair):
    before = contents(ada, pair)
    file = back_up(home, "Ada", asked_for=True)
    assert backups_of(ada) == [file]
    assert [(part.path, part.bytes) for part in describe_profile(ada) if part.name == "backup"] == [
        (file, file.stat().st_size)
    ]
    copy = import_profile(home, file, "Again")
    assert contents(copy, pair) == before


def test_one_that_could_not_be_imported_is_none(home, ada):
    (ada.adapters / "tiny-drafter" / "0123abcd" / "0001" / "adapter.gguf").write_bytes(b"GGUF" + bytes(99))
    with pytest.raises(StorageError, match=r"A backup of Ada could not be opened again.*adapter.gguf"):
        back_up(home, "Ada")
    assert backups_of(ada) == []
    assert os.listdir(home.profiles / ".backups") == []


@needs_memory
def test_a_conversion_is_backed_up_until_the_next_start_has_opened_it(home, ada, pair, start, tmp_path):
    before = contents(ada, pair)
    with start(encrypt=True):
        (file,) = backups_of(ada)
        assert is_sealed(file.read_bytes())
        copy = import_profile(home, file, "Again")
        assert copy.chats.is_file()
        delete_profile(home, "Again")
    with start():
        assert backups_of(ada) == []
    make_plain(home.root, asked(), back_up_all)
    (file,) = backups_of(ada)
    assert zipfile.is_zipfile(file)
    with start():
        assert backups_of(ada) == []
        assert contents(ada, pair) == before


def test_what_an_earlier_version_wrote_is_backed_up_before_it_is_brought_forward(home, ada, start):
    ada.metrics.unlink()
    open_database(ada.metrics, APPLICATION_ID, MIGRATIONS[:1]).close()
    with start():
        (file,) = backups_of(ada)
    with start():
        assert backups_of(ada) == [file]  # nobody has brought it forward yet
    History(ada.metrics).close()
    with start():
        assert backups_of(ada) == []


def test_one_that_was_asked_for_stays(home, ada, start):
    file = back_up(home, "Ada", asked_for=True)
    for _ in range(2):
        with start():
            assert backups_of(ada) == [file]


@pytest.mark.parametrize("act", [forget_everything, delete_profile])
def test_what_is_forgotten_is_in_no_backup(home, ada, act):
    back_up(home, "Ada")
    back_up(home, "Ada", asked_for=True)
    assert len(backups_of(ada)) == 2
    (home.profiles / ".backups" / ".Ada.zip.tmp").write_bytes(b"half")  # a program was killed
    act(home, "Ada")
    assert os.listdir(home.profiles / ".backups") == []
