"""Profiles as folders."""

import os
import signal
import subprocess
import sys

import pytest

from omnidraft.chats import ChatStore
from omnidraft.errors import SettingsError, StorageError
from omnidraft.profiles.folders import (
    create_profile,
    delete_profile,
    in_use,
    list_profiles,
)


def names(home):
    return [profile.name for profile in list_profiles(home)]


def test_profiles_are_listed_by_name_and_nothing_else_is(home):
    for name in ("zoe", "Ada", "bob 2"):
        create_profile(home, name)
    (home.profiles / "a file").write_text("x")
    (home.profiles / ".hidden").mkdir()
    (home.profiles / "bad name.").mkdir()
    assert names(home) == ["Ada", "bob 2", "zoe"]
    assert list_profiles(home)[0] == home.profile("Ada", create=False)


def test_a_name_is_given_once_whatever_its_case(home):
    create_profile(home, "Ada")
    for name in ("Ada", "ada", "ADA"):
        with pytest.raises(StorageError, match="exists already"):
            create_profile(home, name)
    with pytest.raises(SettingsError):
        create_profile(home, "../Ada")
    assert names(home) == ["Ada"]


def test_a_profile_that_is_open_is_not_deleted(home):
    paths = create_profile(home, "Ada")
    assert not in_use(paths)
    store = ChatStore(paths.chats)
    assert in_use(paths)
    with pytest.raises(StorageError, match="in use"):
        delete_profile(home, "Ada")
    store.create("still works")
    store.close()
    assert not in_use(paths)
    delete_profile(home, "Ada")


HOLDER = """
import sys, time
from omnidraft.chats import ChatStore
store = ChatStore(sys.argv[1])
print("open", flush=True)
time.sleep(60)
"""


def test_a_profile_open_in_another_process_counts_as_in_use_until_that_is_killed(home):
    paths = create_profile(home, "Ada")
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(paths.chats)], stdout=subprocess.PIPE)
    child.stdout.readline()
    assert in_use(paths)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not in_use(paths)


def test_a_damaged_database_does_not_keep_a_profile_from_being_deleted(home):
    paths = create_profile(home, "Ada")
    paths.chats.write_text("not a database " * 100)
    assert not in_use(paths)
    delete_profile(home, "Ada")
    assert names(home) == []


def test_a_profile_that_is_a_link_is_deleted_and_its_folder_stays(home, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (home.profiles / "Ada").symlink_to(tmp_path / "elsewhere")
    delete_profile(home, "Ada")
    assert os.listdir(home.profiles) == []
    assert (tmp_path / "elsewhere").is_dir()


def test_what_a_killed_deletion_left_behind_goes(home):
    (home.profiles / ".deleted-1").mkdir()
    (home.profiles / ".deleted-1" / "chats.sqlite").write_text("x")
    assert names(home) == []
    assert os.listdir(home.profiles) == []
