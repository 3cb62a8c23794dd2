"""Files and folders for temporary use: they go with their process, and what a killed one left goes when another begins.

What is in use stays, whatever the clock says: all of it looks years old here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnidraft.storage.scratch import Scratch, replacing, sweep

KILLED = """
import os, signal, sys
from pathlib import Path
from omnidraft.storage.scratch import Scratch, replacing
folder = Path(sys.argv[1])
with Scratch("race-", folder) as made, replacing(folder / "a [b]*?.toml"):
    (made / "adapter").write_text("learned")
    os.kill(os.getpid(), signal.SIGKILL)
"""
unix = pytest.mark.skipif(sys.platform == "win32", reason="nobody is killed there by a signal")


@pytest.fixture
def left(tmp_path) -> Path:
    """A folder with what a killed program left in it."""
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)]).returncode == -9
    assert len(os.listdir(tmp_path)) == 2
    return tmp_path


def test_it_is_gone_when_it_is_removed_or_nobody_holds_it(tmp_path):
    made = Scratch("race-", tmp_path)
    (made.path / "adapter").write_text("learned")
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == []
    Scratch("race-", tmp_path)

    def interrupted() -> None:
        with replacing(tmp_path / "x") as file:
            file.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@unix
def test_what_a_killed_program_left_is_removed_and_nothing_else(left):
    other = left / "another program"
    other.mkdir()
    (left / "race-file").write_text("no folder")
    (left / "race-link").symlink_to(other)
    (left / ".b.toml.x.tmp").write_text("another file's")
    others = sorted([other.name, "race-file", "race-link", ".b.toml.x.tmp"])
    with ExitStack() as held:
        room, file = held.enter_context(Scratch("race-", left)), held.enter_context(replacing(left / "a [b]*?.toml"))
        for path in left.iterdir():
            os.utime(path, (1, 1), follow_symlinks=False)
        sweep(left, "race-")
        with replacing(left / "a [b]*?.toml") as made:
            made.write_text("new")
        assert sorted(os.listdir(left)) == sorted([*others, room.name, file.name, "a [b]*?.toml"])
    assert sorted(os.listdir(left)) == sorted([*others, "a [b]*?.toml"])


def test_sweeping_takes_nothing_from_whoever_writes_just_then(tmp_path):
    """Every one of these sweeps before it writes, and some do nothing else."""

    def write(number: int) -> None:
        for turn in range(50):
            with replacing(tmp_path / "x") as file:
                file.write_text(f"{number} {turn}")
            with Scratch("race-", tmp_path) as folder:
                (folder / "y").write_text("z")
                sweep(tmp_path, "race-")
                assert (folder / "y").read_text() == "z"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert os.listdir(tmp_path) == ["x"]
