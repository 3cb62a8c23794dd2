"""What ended the program when it was used is not loaded by itself again; a kill is nobody's fault."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.app.in_use import InUse
from omnidraft.storage.trial import CRASHED, TRIALS, Trials

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


def test_the_note_names_what_is_loaded_now_and_goes_with_the_last(tmp_path):
    in_use, one, other = InUse(), object(), object()
    in_use.hold(one, tmp_path, [("a.gguf", None)])
    in_use.hold(other, tmp_path, [("b.gguf", "lora.gguf")])
    (note,) = tmp_path.glob("in-use-*")
    assert json.loads(note.read_text()) == [["a.gguf", None], ["b.gguf", "lora.gguf"]]
    in_use.hold(one, tmp_path, [])
    assert json.loads(note.read_text()) == [["b.gguf", "lora.gguf"]]
    InUse().look_in(tmp_path)  # another program, while this one runs
    assert note.exists()
    in_use.hold(other, tmp_path, [])
    assert not note.exists()


@pytest.mark.parametrize("words", [b"", b"{\nFatal Python error", b"[5]\nFatal Python error", b"\xff\n" * 5])
def test_a_note_that_says_nothing_is_dropped(tmp_path, words):
    (tmp_path / "in-use-1-x.txt").write_bytes(words)
    InUse().look_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_bundled_model_is_never_blamed(models, tmp_path):
    blamed = models / "tiny-drafter-f16.gguf"
    (tmp_path / "in-use-1-x.txt").write_text(json.dumps([[str(blamed), None]]) + "\nFatal Python error: Aborted\n")
    InUse().look_in(tmp_path)
    TRIALS.refuse_crashed(blamed)
