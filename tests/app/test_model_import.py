"""A model file that somebody brings: taken whole and checked, or refused in a sentence that leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from omnidraft.app import model_import
from omnidraft.app.model_import import Incoming
from omnidraft.backends.discovery import projector_beside
from omnidraft.errors import ModelError
from omnidraft.storage.paths import BUNDLED_MODELS, DataHome

DRAFTER = (BUNDLED_MODELS / "tiny-drafter-f16.gguf").read_bytes()
EYES = BUNDLED_MODELS / "mmproj-tiny-target-a2-f16.gguf"


@pytest.fixture
def home(tmp_path) -> DataHome:
    return DataHome(tmp_path)


def bring(home: DataHome, name: str, data: bytes, beside: str = "") -> str:
    incoming = Incoming(home, name, len(data), beside)
    for at in range(0, max(len(data), 1), 1 << 20):
        incoming.write(data[at : at + (1 << 20)])
    return incoming.take()


def there(home: DataHome) -> set[str]:
    return set(os.listdir(home.models))


def test_a_file_is_taken_once_it_is_whole(home):
    incoming = Incoming(home, "mine.gguf", len(DRAFTER))
    incoming.write(DRAFTER[:1000])
    assert not any(name.endswith(".gguf") for name in there(home))
    incoming.write(DRAFTER[1000:])
    assert incoming.take() == "mine.gguf is among the models now."
    assert there(home) == {"mine.gguf"}
    assert (home.models / "mine.gguf").read_bytes() == DRAFTER
    assert bring(home, "mine.gguf", DRAFTER) == "mine.gguf is already there."


def test_a_name_that_another_file_has_is_refused_and_that_file_stays(home):
    bring(home, "mine.gguf", DRAFTER)
    other = (BUNDLED_MODELS / "tiny-target-b-f16.gguf").read_bytes()
    with pytest.raises(ModelError, match="the name of another file"):
        bring(home, "mine.gguf", other)
    assert (home.models / "mine.gguf").read_bytes() == DRAFTER
    assert there(home) == {"mine.gguf"}


@pytest.mark.parametrize(
    ("data", "told"),
    [(b"", "no GGUF file"), (b"PK\3\4" + bytes(99), "no GGUF file"), (DRAFTER[: len(DRAFTER) // 2], "bad.gguf "),
     (b"GGUF" + bytes(99), "bad.gguf ")],
)  # fmt: skip
def test_what_is_no_model_is_refused_by_its_name(home, data, told):
    with pytest.raises(ModelError, match=told) as refused:
        bring(home, "bad.gguf", data)
    assert ".part" not in str(refused.value)
    assert there(home) == set()


def test_what_passes_no_trial_is_not_kept(home, monkeypatch):
    def fails(path: Path) -> None:
        raise ModelError(f"{path} makes llama.cpp end the whole program.")

    monkeypatch.setattr(model_import.TRIALS, "require", fails)
    with pytest.raises(ModelError, match=r"^mine\.gguf makes llama\.cpp end"):
        bring(home, "mine.gguf", DRAFTER)
    assert there(home) == set()


@pytest.mark.parametrize(
    "name", ["../up.gguf", "a/b.gguf", ".hidden.gguf", "no\nname.gguf", "x" * 300 + ".gguf", "model.bin"]
)
def test_names_that_are_no_plain_gguf_files_are_refused(home, name):
    with pytest.raises(ModelError):
        Incoming(home, name, 10)


def test_a_disk_without_room_is_said_before_anything_comes(home):
    with pytest.raises(ModelError, match="free on the disk"):
        Incoming(home, "mine.gguf", shutil.disk_usage(home.root).free)


def test_more_than_was_said_fills_no_disk(home):
    incoming = Incoming(home, "mine.gguf", 10)
    with pytest.raises(ModelError, match="larger than"):
        incoming.write(DRAFTER)
    with pytest.raises(ModelError, match="did not arrive whole"):
        incoming.take()
    assert there(home) == set()


def test_a_projector_goes_with_the_model_it_came_with(home):
    model = (BUNDLED_MODELS / "tiny-target-a2-f16.gguf").read_bytes()
    bring(home, "seeing-q8.gguf", model)
    assert bring(home, "eyes.gguf", EYES.read_bytes(), "seeing-q8.gguf").startswith("mmproj-seeing-q8.gguf is")
    assert projector_beside(home.models / "seeing-q8.gguf") == home.models / "mmproj-seeing-q8.gguf"
    bring(home, "eyes.gguf", EYES.read_bytes())
    assert "mmproj-eyes.gguf" in there(home)


def test_what_a_killed_program_left_goes_and_what_is_on_its_way_stays(home):
    home.models.mkdir()
    for name, age in ((".old.part", 2e5), (".new.part", 10)):
        (home.models / name).write_bytes(b"x")
        os.utime(home.models / name, (time.time() - age,) * 2)
    (home.models / "download.gguf.part").write_bytes(b"x")
    Incoming(home, "mine.gguf", 10)
    assert there(home) == {".new.part", "download.gguf.part"}
