"""How far a load has come is told to who watches it, and it can be called off."""

import shutil

import pytest

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama import widths
from omnidraft.processes.progress import CalledOff, Progress, watched
from omnidraft.storage.known import Known
from omnidraft.storage.paths import find_data_home
from omnidraft.storage.trial import TRIALS, WITHIN


class Seen(Progress):
    """Remembers what it was told; called off when it is told what begins with `until`."""

    until = "never"

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "doing":
            self.__dict__.setdefault("all", []).append(value)
            if value.startswith(self.until):
                self.call_off()


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    monkeypatch.setattr(TRIALS, "_trusted", set())
    monkeypatch.setattr(TRIALS, "_verdicts", Known("trials.json", bool))
    monkeypatch.delenv(WITHIN, raising=False)


@pytest.fixture
def assistant(tmp_path, models):
    made = Assistant(find_data_home(tmp_path / "home"))
    made.load(models / "tiny-target-b-f16.gguf", None)
    yield made
    made.close()


@pytest.fixture
def stranger(tmp_path, models, assistant, monkeypatch):
    """A file that nobody has tried yet, nor one like it."""
    monkeypatch.setattr(widths, "KNOWN", Known("widths.json", bool))
    return shutil.copy(models / "tiny-target-a-f16.gguf", tmp_path / "stranger.gguf")


def test_a_load_tells_what_it_does(assistant, stranger, models):
    seen = Seen(stranger)
    with watched(seen):
        assistant.load(stranger, models / "tiny-drafter-f16.gguf")
    steps = list(dict.fromkeys(seen.all))
    assert steps[1:3] == ["checking the file", "reading stranger"]  # behind none
    assert steps[-1] == "measuring what passes take"
    assert seen.final
    assert seen.share is not None


@pytest.mark.parametrize("until", ["checking", "reading", "finding"])
def test_a_load_that_is_called_off_leaves_what_was_there(assistant, stranger, until):
    seen = Seen(stranger)
    seen.until = until
    with watched(seen), pytest.raises(CalledOff, match="stranger was not loaded"):
        assistant.load(stranger, None)
    assert assistant.target.name == "tiny-target-b"
    assistant.load(stranger, None)  # nobody remembers a verdict that was none
    assert assistant.target.name == "stranger"
