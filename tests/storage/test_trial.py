"""Unknown files are opened in a child first: what ends the child is never opened here, and everything only once."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from omnidraft.backends.gguf.file import usable_info
from omnidraft.errors import ModelError
from omnidraft.processes.children import Outcome, run_bounded
from omnidraft.storage import trial
from omnidraft.storage.trial import Trials
from omnidraft.vocab import llama_vocab
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from tests.backends.altered import NUMBERS, altered


@pytest.fixture
def crashing(monkeypatch):
    """Children end as the names of the files say."""
    monkeypatch.setattr(trial, "_CHILD", "tests.crashing")
    monkeypatch.delenv(trial.WITHIN, raising=False)


def made(folder: Path, name: str, content: bytes = b"GGUF") -> Path:
    (folder / f"{name}.gguf").write_bytes(content)
    return folder / f"{name}.gguf"


@pytest.mark.parametrize(("name", "told"), [("abort", "end the whole program"), ("odd", "is odd")])
def test_what_ends_the_child_is_refused_now_and_after_a_restart(crashing, monkeypatch, tmp_path, name, told):
    file, first = made(tmp_path, name), Trials()
    first.keep_in(tmp_path)
    with pytest.raises(ModelError, match=told):
        first.require(file)
    monkeypatch.setattr(trial, "run_bounded", lambda *_: pytest.fail("it was tried again"))
    again = Trials()
    again.keep_in(tmp_path)
    for trials in (first, again):
        with pytest.raises(ModelError, match=told):
            trials.require(file)


def test_what_passed_is_not_tried_again_until_it_changes(crashing, monkeypatch, tmp_path):
    file, tried = made(tmp_path, "fine"), []
    trials = Trials()
    trials.require(file)
    monkeypatch.setattr(trial, "run_bounded", lambda *given: tried.append(given) or Outcome("", False, 0))
    trials.require(file)
    assert not tried
    file.rename(tmp_path / "moved.gguf")
    trials.require(tmp_path / "moved.gguf")
    assert not tried
    made(tmp_path, "moved", b"GGUF2")
    trials.require(tmp_path / "moved.gguf")
    assert len(tried) == 1
    trials.require(tmp_path / "moved.gguf", made(tmp_path, "adapter"))
    assert len(tried) == 2


def test_a_child_that_hangs_is_ended_and_its_file_may_be_tried_again(crashing, monkeypatch, tmp_path):
    monkeypatch.setattr(trial, "_SECONDS", 1.0)
    trials = Trials()
    trials.keep_in(tmp_path)
    for name in ("hang", "spin"):
        with pytest.raises(ModelError, match="1 s of work did not open it"):
            trials.require(made(tmp_path, name))
    assert not (tmp_path / "trials.json").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_one_that_the_system_ended_for_want_of_memory_leaves_no_verdict(crashing, tmp_path):
    trials = Trials()
    trials.keep_in(tmp_path)
    with pytest.raises(ModelError, match="memory is short"):
        trials.require(made(tmp_path, "killed"))
    assert not (tmp_path / "trials.json").exists()


def slowed(running: threading.Event, share: float) -> None:
    """Let this process's child have a processor for that share of the time, as beside busy programs."""
    while not running.wait(0.01):
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if "tests.crashing" in child.cmdline():
                    child.suspend()
                    running.wait(0.1 * (1 - share))
                    child.resume()
                    running.wait(0.1 * share)


@pytest.mark.slow
def test_waiting_for_a_busy_processor_takes_none_of_a_childs_time():
    """One second of work, of which two are allowed, takes six."""
    over = threading.Event()
    others = threading.Thread(target=slowed, args=(over, 0.17))
    others.start()
    begun = time.monotonic()
    try:
        outcome = run_bounded("tests.crashing", {"path": "work"}, 2.0, 1 << 30, {})
    finally:
        over.set()
        others.join()
    assert (outcome.answer, outcome.late) == ("", False)
    assert time.monotonic() - begun > 3, "it was slowed down"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process maps")
def test_a_child_that_fills_the_memory_ends_alone():
    outcome = run_bounded("tests.crashing", {"path": "memory"}, 120.0, 1 << 28, {})
    assert (outcome.answer, outcome.late) == (None, False)


def test_bundled_files_and_those_written_here_are_trusted(crashing, monkeypatch, models, tmp_path):
    monkeypatch.setattr(trial, "run_bounded", lambda *_: pytest.fail("it was tried"))
    trials = Trials()
    for file in models.glob("*.gguf"):
        trials.require(file)
    trials.trust(tmp_path / "merged")
    (tmp_path / "merged").mkdir()
    trials.require(made(tmp_path / "merged", "abort"))
    (tmp_path / "merged" / "link.gguf").symlink_to(made(tmp_path, "odd"))
    with pytest.raises(BaseException, match="it was tried"):  # a link leads out of the folder
        trials.require(tmp_path / "merged" / "link.gguf")


def test_a_real_model_passes_and_a_missing_file_is_somebody_elses_business(monkeypatch, models, tmp_path):
    monkeypatch.delenv(trial.WITHIN, raising=False)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes((models / "tiny-drafter-f16.gguf").read_bytes())
    trials = Trials()
    trials.keep_in(tmp_path)
    trials.require(copy)
    assert list(json.loads((tmp_path / "trials.json").read_bytes()).values()) == [""]
    trials.require(tmp_path / "missing.gguf")


def test_a_file_with_which_llama_cpp_ends_the_process_is_refused(monkeypatch, models, tmp_path):
    """A tokenizer of another kind passes every look at the header, and aborts."""
    monkeypatch.delenv(trial.WITHIN, raising=False)
    monkeypatch.setattr(llama_vocab, "TRIALS", Trials())
    changes = {"tokenizer.ggml.model": ("bert", NUMBERS.STRING)}
    file = altered(models / "tiny-drafter-f16.gguf", tmp_path / "other.gguf", changes)
    usable_info(file)
    for _ in range(2):
        with pytest.raises(ModelError, match="end the whole program"):
            read_gguf_vocabulary(file)
