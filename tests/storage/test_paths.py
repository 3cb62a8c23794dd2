"""The data home: found in one order, private, and refused with one sentence where it cannot work."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage import paths
from omnidraft.storage.paths import DataHome, find_data_home, profile_name


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Each place the data home may be, none of them chosen yet."""
    monkeypatch.delenv("OMNIDRAFT_HOME", raising=False)
    portable = tmp_path / "app" / "user_data"
    portable.mkdir(parents=True)
    monkeypatch.setattr(paths, "PORTABLE", portable)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_order_is_option_variable_portable_folder_system_folder(places, monkeypatch):
    if sys.platform == "linux":
        assert find_data_home().root == places / "xdg" / "omnidraft"
    (places / "app" / "user_data" / "portable").touch()
    monkeypatch.setenv("OMNIDRAFT_HOME", "")  # as good as none
    assert find_data_home().root == places / "app" / "user_data"
    monkeypatch.setenv("OMNIDRAFT_HOME", str(places / "variable"))
    assert find_data_home().root == places / "variable"
    assert find_data_home(places / "option").root == places / "option"


def test_a_tilde_and_a_relative_path_are_resolved(places, monkeypatch):
    monkeypatch.chdir(places)
    assert find_data_home("~/data").root == places / "home" / "data"
    assert find_data_home("here").root == places / "here"


def test_folders_are_private(tmp_path):
    home = find_data_home(tmp_path / "deep" / "home")
    profile = home.profile("default")
    for folder in (home.root, home.models, home.cache, home.profiles, profile.root):
        assert folder.stat().st_mode & 0o777 == 0o700


def unusable(tmp_path):
    """Places that fail for root as well."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return [
        tmp_path / "file",
        tmp_path / "file" / "below",
        tmp_path / "loop",
        tmp_path / ("x" * 300),
        "a\0b",
        "~no-such-user-here/x",
        "/proc/omnidraft",
    ]


def test_an_unusable_home_is_one_sentence_and_nothing_is_lost(tmp_path):
    for place in unusable(tmp_path):
        with pytest.raises(StorageError) as error:
            find_data_home(place)
        assert "\n" not in str(error.value)
        assert str(error.value).endswith(".")
    assert (tmp_path / "file").read_text() == "mine"


GOOD = ["default", "Ada", "ada lovelace", "Zoë", "李雷", "हिन्दी", "a.b-c_d 1", "x" * 64, "7"]
BAD = [
    "", " ",
    ".", "..", "../x", "a/b", "a\\b", "/etc", "C:x", "a\0", "a\nb", ".hidden", "-option", " a", "a ", "a.", "Ada L.",
    "x" * 65, "李" * 64 + "雷", "con", "NUL", "Com1.txt", "aux ", "a*", "a?", "~", "a:b", "\ud800", "\u202egpj", "✓",
    None, 5,
]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_profile_names_are_accepted(tmp_path, name):
    assert DataHome(tmp_path).profile(name).root.is_dir()


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_bad_profile_names_are_refused_with_the_rule(tmp_path, name):
    with pytest.raises(SettingsError, match="1 to 64 letters"):
        DataHome(tmp_path).profile(name)
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=80))
def test_an_accepted_name_is_always_one_plain_path_component(name):
    try:
        form = profile_name(name)
    except SettingsError:
        return
    assert Path(form).parts == (form,)
    assert not form.startswith((".", "-", " "))
    assert len(os.fsencode(form)) <= 200
    assert not set(form) & set('/\\:*?"<>|\0\n')


def test_names_that_differ_by_case_alone_are_one_too_many(tmp_path):
    home = find_data_home(tmp_path)
    home.profile("alice")
    for name in ("Alice", "ALICE"):
        with pytest.raises(SettingsError, match=f"There is a profile named alice already; {name} is too like it."):
            home.profile(name)
    assert home.profile("alice").root.is_dir()
    assert os.listdir(home.profiles) == ["alice"]
