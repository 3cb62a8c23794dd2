"""A profile goes out as one file and comes back the same."""

import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from omnidraft.chats import ChatStore
from omnidraft.errors import SettingsError, StorageError
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.profiles.exporting import export_profile
from omnidraft.profiles.folders import list_profiles
from omnidraft.profiles.importing import import_profile
from omnidraft.settings.config import changed
from omnidraft.settings.file import load_settings, save_settings

from .conftest import contents, record

ROOT = Path(__file__).resolve().parents[2]


def test_everything_comes_back(home, ada, pair, tmp_path):
    archive = export_profile(home, "Ada", tmp_path / "ada.zip")
    imported = import_profile(home, archive, "Ada again")
    assert contents(imported, pair) == contents(ada, pair)
    assert [p.name for p in list_profiles(home)] == ["Ada", "Ada again"]
    with ChatStore(imported.chats) as store:
        assert store.search("walrus")


def test_workers_stay_with_the_machine_they_were_named_on(home, ada, tmp_path):
    """Whoever made an archive shall not have this machine send a model's layers to an address of theirs."""
    settings, _ = load_settings(ada.settings)
    save_settings(ada.settings, changed(settings, **{"model.workers": "10.0.0.9:50052", "model.split": "1,1"}))
    archive = export_profile(home, "Ada", tmp_path / "ada.zip")
    brought, _ = load_settings(import_profile(home, archive, "Ada again").settings)
    assert (brought.model.workers, brought.model.split) == (None, None)
    assert (
        changed(brought, **{"model.workers": "10.0.0.9:50052", "model.split": "1,1"}) == load_settings(ada.settings)[0]
    )


def test_a_profile_in_use_is_exported_as_it_is_at_that_moment(home, ada, pair, tmp_path):
    with ChatStore(ada.chats) as store, ReplayStore(ada.replay) as replay:
        chat = store.create("written just now").id
        replay.add(record(99))
        archive = export_profile(home, "Ada", tmp_path / "ada.zip")
        store.append(chat, "user", "too late")
    imported = import_profile(home, archive, "Bob")
    with ChatStore(imported.chats) as store:
        assert store.conversations()[0].title == "written just now"
        assert store.path(store.conversations()[0].id) == []
    with ReplayStore(imported.replay, read_only=True) as replay:
        assert len(replay) == 41


def test_deleted_text_is_not_in_the_export(home, ada, tmp_path):
    with sqlite3.connect(ada.metrics) as metrics:
        metrics.execute("PRAGMA secure_delete=OFF")
        metrics.executemany("INSERT INTO answers VALUES (1, 1, ?)", [("zqxkvbnwarlp" * 50,)] * 200)
        metrics.commit()
        metrics.execute("DELETE FROM answers WHERE about LIKE 'zqx%'")
    metrics.close()
    assert b"zqxkvbnwarlp" in ada.metrics.read_bytes()
    with zipfile.ZipFile(export_profile(home, "Ada", tmp_path)) as archive:
        assert b"zqxkvbnwarlp" not in archive.read("metrics.sqlite")


def test_what_cannot_be_exported_is_one_sentence_and_leaves_nothing(home, ada, tmp_path):
    with pytest.raises(StorageError, match="no profile named Bob"):
        export_profile(home, "Bob", tmp_path)
    with pytest.raises(StorageError, match="cannot be exported"):
        export_profile(home, "Ada", tmp_path / "missing" / "ada.zip")
    ada.settings.write_text("[broken")
    with pytest.raises(StorageError, match="damaged"):
        export_profile(home, "Ada", tmp_path)
    ada.settings.unlink()
    ada.replay.write_bytes(b"garbage" * 1000)
    with pytest.raises(StorageError, match=r"replay\.sqlite"):
        export_profile(home, "Ada", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["home"]
    assert os.listdir(home.profiles) == ["Ada"]


def test_adapter_versions_still_being_written_stay_behind(home, ada, tmp_path):
    (ada.adapters / "tiny-drafter" / ".writing").mkdir()
    (ada.adapters / "tiny-drafter" / ".writing" / "adapter.gguf").write_bytes(b"GGUF half")
    (ada.adapters / "tiny-drafter" / ".latest.tmp").write_bytes(b"half")
    (ada.adapters / "link").symlink_to("/etc")
    with zipfile.ZipFile(export_profile(home, "Ada", tmp_path)) as archive:
        assert not [n for n in archive.namelist() if "writing" in n or "tmp" in n or "link" in n]
        assert len([n for n in archive.namelist() if n.startswith("adapters/")]) == 3


def test_an_import_never_replaces_a_profile(home, ada, pair, tmp_path):
    archive = export_profile(home, "Ada", tmp_path)
    before = contents(ada, pair)
    for name in (None, "Ada", "ADA"):
        with pytest.raises(StorageError, match="exists already; choose another name"):
            import_profile(home, archive, name)
    with pytest.raises(SettingsError):
        import_profile(home, archive, "../Ada")
    assert contents(ada, pair) == before
    assert os.listdir(home.profiles) == ["Ada"]


EXPORTING = """
import os, sys, zipfile
from pathlib import Path
from omnidraft.storage.paths import find_data_home
from omnidraft.profiles import exporting
exporting._add = lambda *_: os.kill(os.getpid(), 9)
exporting.export_profile(find_data_home(sys.argv[1]), "Ada", Path(sys.argv[2]))
"""


def test_what_a_killed_export_left_goes_with_the_next(home, ada, tmp_path):
    """The copy in the data home goes when profiles are looked at, which the app does at its start."""
    out = tmp_path / "out"
    out.mkdir()
    killed = subprocess.run([sys.executable, "-c", EXPORTING, str(home.root), str(out)], cwd=ROOT, timeout=120)
    assert killed.returncode == -9
    assert len(os.listdir(out)) == 1
    assert [name[:10] for name in sorted(os.listdir(home.profiles))] == [".outgoing-", "Ada"]
    assert [profile.name for profile in list_profiles(home)] == ["Ada"]
    assert os.listdir(home.profiles) == ["Ada"]
    export_profile(home, "Ada", out)
    assert os.listdir(out) == ["Ada.zip"]
