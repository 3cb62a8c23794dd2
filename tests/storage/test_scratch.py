"""Folders for temporary use: they go with their process, and what a killed one left goes when another begins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from omnidraft.storage.scratch import Scratch, sweep

KILLED = """
import os, signal, tempfile
tempfile.tempdir = {folder!r}
from omnidraft.storage.scratch import Scratch
made = Scratch("race-")
(made.path / "adapter").write_text("learned")
print(made.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def aged(folder):
    for path in folder.iterdir():
        os.utime(path, (1, 1), follow_symlinks=False)


def test_it_is_gone_when_it_is_removed_or_nobody_holds_it(folder):
    made = Scratch("race-")
    (made.path / "adapter").write_text("learned")
    made.remove()
    made.remove()
    assert list(folder.iterdir()) == []
    Scratch("race-")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="nobody is killed there by a signal")
def test_what_a_killed_program_left_is_removed_and_nothing_else(folder):
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(folder=str(folder))], capture_output=True, text=True, check=False
    )
    left = folder / os.path.basename(done.stdout.strip())
    assert (left / "adapter").exists(), done.stderr
    alive, other = Scratch("race-"), folder / "another program"
    other.mkdir()
    (folder / "race-file").write_text("no folder")
    (folder / "race-link").symlink_to(other)
    sweep(folder, "race-")
    assert left.exists()  # it might be one that is just being made
    aged(folder)
    sweep(folder, "race-")
    assert not left.exists()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [alive.path.name, "another program", "race-file", "race-link"]
    )
    alive.remove()
