"""Large files are there whole or not at all, and a full disk is noticed before they are written."""

import threading
import time
from types import SimpleNamespace

import pytest

from omnidraft.backends.gguf import convert
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.errors import ModelError, StorageError
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.settings.config import ModelSettings


def test_what_a_killed_process_left_is_deleted_and_what_is_written_is_not(tmp_path):
    (tmp_path / ".big.gguf.x.gguf-part").write_bytes(b"x")
    with convert.replacing(tmp_path / "other.gguf") as fresh:
        with convert.replacing(tmp_path / "out.gguf"):
            pass
        assert sorted(path.name for path in tmp_path.iterdir()) == [fresh.name, "out.gguf"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.gguf", "out.gguf"]


def test_an_interrupted_file_leaves_nothing_behind(tmp_path):
    def write() -> None:
        with convert.replacing(tmp_path / "out.gguf") as made:
            made.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_noticed_before_writing(tmp_path, monkeypatch):
    usage = SimpleNamespace(total=10**9, used=0, free=10**6)
    monkeypatch.setattr(convert.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(StorageError, match="free"):
        convert.need_space(tmp_path, 10**6)


def test_another_form_is_written_once_and_opens(models, tmp_path):
    source = models / "tiny-target-a-f16.gguf"
    made = convert.requantized(source, "Q8_0", tmp_path / "forms")
    written = made.stat().st_mtime_ns
    assert convert.requantized(source, "Q8_0", tmp_path / "forms").stat().st_mtime_ns == written
    with LlamaDrafter.open(made, ModelSettings(n_ctx=64)) as model:
        assert model.extend(model.vocabulary.encode("Hello", at_start=True), 1).shape[0] == 1
    assert [path.name for path in (tmp_path / "forms").iterdir()] == [made.name]


def test_a_form_that_nobody_waits_for_is_not_even_begun(models, tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "run_bounded", lambda *_: pytest.fail("it was begun"))
    progress = Progress(models / "tiny-target-a-f16.gguf")
    progress.called_off = True
    with watched(progress), pytest.raises(CalledOff):
        convert.requantized(progress.path, "F32", tmp_path / "forms")
    assert not list((tmp_path / "forms").iterdir())


def test_a_form_is_given_up_while_it_is_written(models, tmp_path):
    progress = Progress(models / "tiny-target-a-f16.gguf")

    def stop() -> None:
        while progress.interrupt is None:  # the child is there
            time.sleep(0.001)
        progress.call_off()

    threading.Thread(target=stop, daemon=True).start()
    with watched(progress), pytest.raises(CalledOff):
        convert.requantized(progress.path, "F32", tmp_path / "forms")
    assert not list((tmp_path / "forms").iterdir())


def test_what_cannot_be_written_is_a_sentence(models, tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "_LONGEST", 0.0)
    with pytest.raises(ModelError, match=r"could not be written as F32: the quantizer ended early\.$"):
        convert.requantized(models / "tiny-target-a-f16.gguf", "F32", tmp_path / "forms")
