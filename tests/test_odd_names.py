"""Models, homes and temporary folders whose names have letters of every kind, links among them: found, and used."""

import shutil

import pytest

from omnidraft.backends.discovery import find_models
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from tests.answering import PLAIN, answered, loaded
from tests.serving import serving

GREEDY = SamplingSettings(temperature=0.0, max_tokens=24)
EIGHT = DraftSettings(mode="fixed", length=8)


def test_models_are_found_and_loaded_through_links_and_letters_of_every_kind(tmp_path, models):
    """By the name of their own, of a link to them, and in a folder that is one, below a name no code page has."""
    lies, home = tmp_path / "Mod\u00e8les \u65e5\u672c \U0001f600", tmp_path / "D\u00e4ten \u6570\u636e"
    lies.mkdir()
    home.mkdir()
    (lies / "\u0440\u0443\u0441.gguf").symlink_to(models / "tiny-target-a-f16.gguf")
    (tmp_path / "li\u00efnk").symlink_to(lies, target_is_directory=True)
    shutil.copy(models / "tiny-drafter-f16.gguf", lies / "dr\u00e4fter.gguf")
    found = []
    for target, drafter in (
        (models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"),
        (lies / "\u0440\u0443\u0441.gguf", lies / "dr\u00e4fter.gguf"),
        (tmp_path / "li\u00efnk" / "\u0440\u0443\u0441.gguf", tmp_path / "li\u00efnk" / "dr\u00e4fter.gguf"),
    ):
        with loaded(home, target, drafter, ModelSettings(threads=1)) as pair:
            for draft in (EIGHT, PLAIN):
                found.append(answered(pair, "Hello there", GREEDY, draft)[0])
    assert found == [found[0]] * 6
    names = [model.path.name for model in find_models([tmp_path / "li\u00efnk"])]
    assert sorted(names) == ["dr\u00e4fter.gguf", "\u0440\u0443\u0441.gguf"]


@pytest.mark.slow
def test_an_app_whose_temporary_folder_has_such_letters_answers(tmp_path):
    temporary = tmp_path / "t\u00e4mp \u4e34\u65f6"
    temporary.mkdir()
    with serving(tmp_path / "h\u00f6me \u043f", TMPDIR=str(temporary)) as app:
        for drafted in (True, False):
            body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "speculation": drafted}
            assert app.ask("POST", "/v1/chat/completions", body)[0] == 200
