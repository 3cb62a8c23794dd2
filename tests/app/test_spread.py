"""Which workers a session uses: the command line's until the page changes them, and costs kept for each set."""

from __future__ import annotations

import pytest

import omnidraft.app.session
from omnidraft.app.session import Session
from omnidraft.app.speeds import speed_key
from omnidraft.errors import SettingsError
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.paths import find_data_home
from tests.ui.fake_assistant import FakeAssistant


@pytest.fixture
def session(tmp_path, models, monkeypatch):
    monkeypatch.setattr(omnidraft.app.session, "Assistant", FakeAssistant)
    target = str(models / "tiny-target-a-f16.gguf")
    made = Session(find_data_home(tmp_path), "default", target, None, "a:1,b:2", "1,1,1")
    yield made
    made.close()


def test_the_command_line_names_workers_and_nothing_of_it_is_kept(session):
    assert (session.model_settings.workers, session.model_settings.split) == ("a:1,b:2", "1,1,1")
    assert session.settings.model.workers is None


def test_what_the_page_says_holds_from_the_next_load_on(session):
    session.prepare()
    assert session.spread("c:3") == "Kept; load the model again for it to take effect."
    assert (session.model_settings.workers, session.model_settings.split) == ("c:3", None)
    assert session.settings.model.workers == "c:3"
    assert session.spread("c:3") == "Kept."
    with pytest.raises(SettingsError):
        session.spread("no address")
    assert session.model_settings.workers == "c:3"
    assert session.spread("").startswith("Kept")
    assert session.model_settings.workers is None


def test_what_passes_cost_is_kept_for_each_set_of_workers(models):
    def key(**settings: object) -> str:
        model = models / "tiny-target-a-f16.gguf"
        return speed_key(model, None, ModelSettings(**settings), None, True)

    alone = key()
    keys = {key(workers="a:1"), key(workers="a:1,b:2"), key(workers="a:1,b:2", split="1,1,1")}
    assert len(keys) == 3
    assert alone not in keys
    assert key(split="1,1") == alone, "a split says nothing without workers"
