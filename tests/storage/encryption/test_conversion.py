"""Homes made encrypted and plain again: everything is there, whatever happens in between, and nothing readable is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from omnidraft.chats import ChatStore
from omnidraft.errors import SettingsError, StorageError
from omnidraft.learning.material.history import History
from omnidraft.processes import system
from omnidraft.settings.file import load_settings
from omnidraft.storage.encryption import change_passphrase, conversion, header, make_plain
from omnidraft.storage.encryption.conversion import MADE, OLD
from omnidraft.storage.encryption.header import read_header
from omnidraft.storage.paths import find_data_home
from omnidraft.storage.scratch import FileLock
from omnidraft.storage.vault import HEADER, LOCK
from tests.storage.encryption.homes import asked, fill, found, needles, opened, raw, told

pytestmark = pytest.mark.skipif(system.memory_folder() is None, reason="encryption needs a folder in memory")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A filled home that is not encrypted. Copy it."""
    root = tmp_path_factory.mktemp("plain") / "home"
    fill(find_data_home(root))
    assert found(root, needles()) == set(needles())  # the search can find them
    return root


@pytest.fixture(scope="module")
def sealed(plain, tmp_path_factory) -> Path:
    """The same, encrypted."""
    root = Path(shutil.copytree(plain, tmp_path_factory.mktemp("sealed") / "home"))
    with opened(root, encrypt=True):
        pass
    return root


@pytest.fixture
def home(plain, tmp_path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "home"))


def held(root: Path) -> list:
    return told(find_data_home(root).profile())


def test_a_home_in_use_is_encrypted_with_all_it_holds(home):
    before = held(home)
    (home / "uploads" / "x").mkdir(parents=True)
    (home / "uploads" / "x" / "letter.txt").write_text("Zanzibarquux")
    (home / "profiles" / "empty").mkdir()
    (home / "profiles" / ".outgoing-1-x").mkdir()
    (home / "profiles" / ".outgoing-1-x" / "chats.sqlite").write_bytes(b"Zanzibarquux")
    with opened(home, encrypt=True):
        assert held(home) == before
        assert found(home, needles()) == set()
    assert found(home, needles()) == set()
    assert not [path for path in (*map(home.joinpath, (*MADE.values(), OLD)), home / "uploads") if path.exists()]
    assert read_header(home) is not None
    assert sorted(os.listdir(home / "profiles")) == ["default", "empty"]
    with pytest.raises(StorageError, match="is encrypted"):
        held(home)
    with opened(home):
        assert held(home) == before


def test_the_way_back_restores_every_file(home, plain):
    with opened(home, encrypt=True):
        pass
    make_plain(home, asked())
    assert held(home) == held(plain)
    assert not (home / HEADER).exists()
    mine, others = (
        {name: data for name, data in raw(root / "profiles").items() if not name.endswith(("sqlite", "wal", "shm"))}
        for root in (home, plain)
    )
    assert mine == others


def test_a_wrong_passphrase_changes_nothing(sealed):
    before = raw(sealed)
    for act in (
        lambda: opened(sealed, passphrase="not this one").__enter__(),
        lambda: make_plain(sealed, asked("not this one")),
        lambda: change_passphrase(sealed, asked("not this one"), asked("a third one")),
    ):
        with pytest.raises(SettingsError, match="That is not the passphrase"):
            act()
    assert raw(sealed) == before


def test_another_passphrase_changes_the_header_alone(sealed, tmp_path):
    root = Path(shutil.copytree(sealed, tmp_path / "home"))
    before = raw(root)
    change_passphrase(root, asked(), asked("another passphrase"))
    after = raw(root)
    assert {name for name in after if after[name] != before.get(name)} == {HEADER}
    with pytest.raises(SettingsError):
        opened(root).__enter__()
    (root / f"{HEADER}.1").write_bytes(before[HEADER])  # as earlier versions kept it
    with opened(root, passphrase="another passphrase"):
        assert held(root)[0] == "Zanzibarquux"
        assert not (root / f"{HEADER}.1").exists()


def test_what_is_encrypted_already_is_not_encrypted_again(home, sealed):
    shutil.copyfile(sealed / "profiles/default/settings.toml", home / "profiles/default/settings.toml")
    with pytest.raises(StorageError, match=r"settings.toml is not readable"):
        opened(home, encrypt=True).__enter__()
    assert not (home / HEADER).exists()


def test_a_home_somebody_works_with_is_left_alone(home):
    before = held(home)
    with ChatStore(home / "profiles" / "default" / "chats.sqlite"), pytest.raises(StorageError, match="in use"):
        opened(home, encrypt=True).__enter__()
    with opened(home), pytest.raises(StorageError, match="Another OmniDraft is working"):
        opened(home, encrypt=True).__enter__()
    lock = FileLock(home / LOCK)  # as who converts has it
    assert lock.acquire()
    for encrypt in (True, False):
        with pytest.raises(StorageError, match="Another OmniDraft is working"):
            opened(home, encrypt=encrypt).__enter__()
    lock.release()
    assert held(home) == before
    assert not (home / HEADER).exists()


def test_what_cannot_be_copied_leaves_the_home_as_it_was(home, monkeypatch, sealed, tmp_path):
    before = held(home)
    ngrams = home / "profiles" / "default" / "ngrams.sqlite"
    good = ngrams.read_bytes()
    ngrams.write_bytes(good[:100] + bytes(len(good) - 100))
    with pytest.raises(StorageError, match=r"ngrams.sqlite cannot be copied"):
        opened(home, encrypt=True).__enter__()
    ngrams.write_bytes(good)
    assert held(home) == before

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(conversion, "seal", full)
    with pytest.raises(StorageError, match="no space left"):
        opened(home, encrypt=True).__enter__()
    assert held(home) == before
    monkeypatch.undo()
    monkeypatch.setattr(header, "write_atomically", full)  # all files are written, and then not even the header fits
    with pytest.raises(OSError, match="No space left"):
        opened(home, encrypt=True).__enter__()
    assert (held(home), conversion.is_unsettled(home)) == (before, False)
    root = Path(shutil.copytree(sealed, tmp_path / "back"))
    monkeypatch.setattr(conversion, "unseal", full)
    with pytest.raises(StorageError, match="no space left"):
        make_plain(root, asked())
    monkeypatch.undo()
    with opened(root):
        assert held(root) == before


def test_a_linked_folder_is_not_left_behind(home, tmp_path):
    os.rename(home / "profiles" / "default", tmp_path / "elsewhere")
    (home / "profiles" / "default").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        opened(home, encrypt=True).__enter__()
    assert held(home)[0] == "Zanzibarquux"


def test_damaged_encrypted_files_are_refused_in_a_sentence(sealed, tmp_path):
    root = Path(shutil.copytree(sealed, tmp_path / "home"))
    profile = root / "profiles" / "default"
    for name in ("chats.sqlite", "settings.toml"):
        data = bytearray((profile / name).read_bytes())
        data[len(data) // 2] ^= 1
        (profile / name).write_bytes(data)
    shutil.copyfile(sealed / "profiles" / "default" / "chats.sqlite", profile / "metrics.sqlite")  # of another key
    with opened(root) as home:
        paths = home.profile()
        for act in (lambda: held(root), lambda: load_settings(paths.settings), lambda: History(paths.metrics)):
            with pytest.raises(StorageError, match="damaged"):
                act()
