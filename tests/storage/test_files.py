"""Small files are written whole, and nothing is left lying around."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from omnidraft.errors import StorageError
from omnidraft.storage.files import erase, make_private, move_aside, read_as, write_atomically

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_is_replaced_and_private(tmp_path):
    path = tmp_path / "a [b]*?.toml"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == [path.name]


def test_where_writing_fails_the_old_content_and_no_rubbish_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    with pytest.raises(StorageError, match="folder cannot be written"):
        write_atomically(tmp_path / "folder", b"x")
    with pytest.raises(StorageError, match="cannot be written: no such file"):
        write_atomically(tmp_path / "missing" / "x", b"x")
    assert os.listdir(tmp_path) == ["folder"]


def test_moving_aside_never_replaces_an_earlier_one(tmp_path):
    path = tmp_path / "x"
    assert move_aside(path) is None
    for number in (1, 2):
        path.write_text(str(number))
        assert move_aside(path).name == f"x.damaged-{number}"
    path.symlink_to(tmp_path / "nowhere")
    assert move_aside(path).is_symlink()
    assert (tmp_path / "x.damaged-1").read_text() == "1"


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path):
    elsewhere, inside = tmp_path / "elsewhere", tmp_path / "folder"
    for folder in (elsewhere, inside):
        folder.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    (tmp_path / "link").symlink_to(elsewhere)
    (inside / "link").symlink_to(elsewhere)
    (inside / "file").symlink_to(elsewhere / "mine.txt")
    for path in (tmp_path / "link", inside, tmp_path / "missing"):
        erase(path)
    assert os.listdir(tmp_path) == ["elsewhere"]
    assert (elsewhere / "mine.txt").read_text() == "mine"


def test_what_others_could_read_becomes_private_but_links_lead_nowhere(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "adapters").mkdir(parents=True)
    for file in (home / "chats.sqlite", home / "adapters" / "x.gguf", elsewhere):
        file.write_text("x")
        file.chmod(0o644)
    (home / "adapters").chmod(0o755)
    (home / "link").symlink_to(elsewhere)
    make_private(home)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (home, *home.rglob("*"), elsewhere)}
    assert modes == {"home": 0o700, "adapters": 0o700, "chats.sqlite": 0o600, "x.gguf": 0o600, "link": 0o644,
                     "elsewhere": 0o644}  # fmt: skip


@pytest.mark.parametrize("module", ["app", "omnidraft"])
def test_what_the_programs_write_is_private(tmp_path, module):
    """Whatever they write with, a library's own files included."""
    script = (
        f"import os, sys; os.umask(0o022); from {module if module == 'app' else 'omnidraft.__main__'} import main\n"
        "try: main(['--help'] if sys.argv[1] == 'no' else ['profile', 'list', '--data-dir', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "open(os.path.join(sys.argv[2], 'made'), 'w').close()"
    )
    if module == "app":
        script = script.replace("['profile', 'list', '--data-dir', sys.argv[1]]", "['--data-dir', '/dev/null']")
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "home"), str(tmp_path)], cwd=ROOT, timeout=120)
    assert done.returncode == 0
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


@dataclass
class Facts:
    kind: Literal["a", "b"]
    time: float | None
    names: tuple[str, ...] = ()


def test_what_another_version_wrote_is_read_as_far_as_it_is_known():
    assert read_as(Facts, {"kind": "a", "time": 3, "later": []}) == Facts("a", 3)
    assert read_as(Facts, {"kind": "b", "time": None, "names": ["x"]}) == Facts("b", None, ("x",))


@pytest.mark.parametrize("wrong", [
    {"kind": "c"}, {"kind": ["a"]}, {"time": "1"}, {"time": True}, {"time": float("nan")}, {"time": 10**400},
    {"names": [1]}, {"names": None},
])  # fmt: skip
def test_values_of_another_kind_are_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        read_as(Facts, {"kind": "a", "time": 1.0} | wrong)
