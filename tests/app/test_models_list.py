"""Which models a profile sees, what they are called, and what their rows offer."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnidraft.app import models_list
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.settings.config import AppSettings
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from ui.models import places as model_places


@pytest.fixture
def session(tmp_path):
    """A profile in a data home where another one has trained something."""
    home = find_data_home(tmp_path / "home")
    trained = home.profile("ada").adapters / "one" / "trained.gguf"
    trained.parent.mkdir(parents=True)
    shutil.copy(BUNDLED_MODELS / "tiny-drafter-f16.gguf", trained)
    assistant = SimpleNamespace(home=home, settings=AppSettings(), named=None)
    return SimpleNamespace(
        assistant=assistant, settings=assistant.settings, loaded=None, drafter_path=lambda: None, trained=trained
    )


def ways_to(session, tmp_path: Path) -> list[Path]:
    """Folders from which what ada has trained can be found."""
    link = tmp_path / "link"
    link.symlink_to(session.trained.parent)
    inside = [session.trained.parent, session.assistant.home.profile("ada").root, session.assistant.home.profiles]
    return [*inside, link, session.trained.parent / ".." / "one", session.assistant.home.root]


def test_a_folder_of_a_profile_is_refused_in_a_sentence(session, tmp_path):
    *inside, around = ways_to(session, tmp_path)
    for folder in inside:
        assert "belongs to a profile" in model_places._refusal(session, str(folder))
    assert model_places._refusal(session, str(around)) == ""
    assert "There is no folder" in model_places._refusal(session, str(tmp_path / "nothing"))


def test_what_a_profile_has_trained_is_never_listed(session, tmp_path):
    for folder in ways_to(session, tmp_path):
        session.assistant.settings = AppSettings(model_folders=(str(folder),))
        assert "trained.gguf" not in [model.path.name for model in models_list.scan(session.assistant)], folder
    assert models_list.folders(session.assistant)[-1] == session.assistant.home.root


def test_a_folder_of_ones_own_is_searched(session, tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.copy(BUNDLED_MODELS / "tiny-drafter-f16.gguf", tmp_path / "mine" / "own.gguf")
    session.assistant.settings = AppSettings(model_folders=(str(tmp_path / "mine"),))
    assert "own.gguf" in [model.path.name for model in models_list.scan(session.assistant)]


@pytest.mark.parametrize("by_settings", [False, True], ids=["command line", "settings"])
def test_a_target_named_by_its_path_is_offered_wherever_it_lies(session, tmp_path, by_settings):
    lies = tmp_path / "downloads" / "fetched.gguf"
    lies.parent.mkdir()
    shutil.copy(BUNDLED_MODELS / "tiny-target-b-f16.gguf", lies)
    shutil.copy(lies, lies.with_name("neighbour.gguf"))
    if by_settings:
        session.assistant.settings = AppSettings(target=str(lies))
    else:
        session.assistant.named = str(lies)
    models = models_list.targets(session.assistant)
    assert [model.path.name for model in models if model.path.parent == lies.parent] == ["fetched.gguf"]
    assert models_list.chosen(models, lies) == str(lies)


def test_what_a_profile_has_trained_is_not_listed_by_its_name_either(session):
    session.assistant.named = str(session.trained)
    assert "trained.gguf" not in [model.path.name for model in models_list.scan(session.assistant)]


def test_programs_call_no_two_models_alike():
    models = [
        ModelInfo(Path("/a/Qwen2.5-0.5B-Instruct"), "Qwen2.5-0.5B-Instruct"),
        ModelInfo(Path("/b/Qwen2.5-7B-Instruct-q4.gguf"), "Qwen2.5 7B"),
        ModelInfo(Path("/b/sha256-abc"), "tiny:2b"),
        ModelInfo(Path("/x/c/same.gguf"), "one"),
        ModelInfo(Path("/d/same.gguf"), "two"),
        ModelInfo(Path("/e/f/like.gguf"), "three"),
        ModelInfo(Path("/g/f/like.gguf"), "four"),
    ]
    *names, one, other = models_list.identifiers(models)
    assert names == ["Qwen2.5-0.5B-Instruct", "Qwen2.5-7B-Instruct-q4", "tiny:2b", "c/same", "d/same"]
    assert one != other
    assert all(name.startswith("like-") and "/" not in name for name in (one, other))
    assert list(models_list.identifiers(models).values()) == models
