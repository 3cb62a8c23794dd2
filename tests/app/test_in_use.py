"""What ended the program when it was used is not loaded by itself again; a kill is nobody's fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.storage.trial import CRASHED, Trials

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def model(models, tmp_path) -> Path:
    return Path(shutil.copy(models / "tiny-drafter-f16.gguf", tmp_path / "mine.gguf"))


def use(home: Path, model: Path, how: str) -> str:
    without = ("OMNIDRAFT_TRIAL", "PYTHONFAULTHANDLER")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    command = [sys.executable, "-m", "tests.using", str(home), str(model), how]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    return done.stdout.strip()


def notes(home: Path) -> list[Path]:
    return list((home / "cache").glob("in-use-*.txt"))


@pytest.mark.parametrize("how", ["abort", pytest.param("fault", marks=pytest.mark.slow)])
def test_what_the_program_crashed_with_is_refused_until_it_is_chosen_again(tmp_path, model, how, monkeypatch):
    home = tmp_path / "home"
    assert use(home, model, how) == ""
    assert len(notes(home)) == 1
    assert use(home, model, "close") == f"{model} {CRASHED}"
    assert notes(home) == []
    monkeypatch.delenv("OMNIDRAFT_TRIAL", raising=False)
    trials = Trials()
    trials.keep_in(home / "cache")
    trials.forgive(model)
    assert use(home, model, "close") == "closed"
    assert notes(home) == []


@pytest.mark.skipif(os.name == "nt", reason="there a kill is no signal")
def test_a_kill_is_no_fault_of_what_was_loaded(tmp_path, model):
    home = tmp_path / "home"
    assert use(home, model, "kill") == ""
    assert len(notes(home)) == 1
    assert use(home, model, "close") == "closed"
    assert notes(home) == []
