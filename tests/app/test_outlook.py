"""Where nobody chose a drafter, the one that is expected to be quickest drafts, from a quiet moment on."""

from __future__ import annotations

import shutil
import time

import pytest

from omnidraft.app import conversing, outlook
from omnidraft.app.drafters import Outlook
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.gguf.file import read_info
from omnidraft.decoding.cost import CostModel
from omnidraft.storage.paths import find_data_home


@pytest.fixture
def session(tmp_path, models):
    made = Session(find_data_home(tmp_path / "home"), "ada", str(models / "tiny-target-a-f16.gguf"), None)
    made.prepare()
    yield made
    made.close()


@pytest.fixture
def other(tmp_path, models, monkeypatch):
    """Another drafter at hand, of which more is expected."""
    path = tmp_path / "other.gguf"
    shutil.copy(models / "tiny-drafter-f16.gguf", path)
    infos = (read_info(path), read_info(models / "tiny-drafter-f16.gguf"))
    ranked = [Outlook(info, gain, None, None, False) for info, gain in zip(infos, (1.8, 1.2), strict=True)]
    monkeypatch.setattr(outlook, "drafters_of", lambda *_: ranked)
    monkeypatch.setattr(outlook, "_sound", lambda _: CostModel({1: 0.01}, 0.001))
    monkeypatch.setattr(outlook, "QUIET", 0.0)
    return path


def drafts(session: Session) -> str:
    return session.assistant.loaded.drafter.info.path.name


def test_the_quickest_drafter_is_taken_and_the_next_answer_says_so(session, other):
    assert drafts(session) == "tiny-drafter-f16.gguf"
    assert outlook.draft_with_the_quickest(session)
    assert drafts(session) == "other.gguf"
    assert session.settings.drafter is None
    chat = session.shown.chat().id
    conversing.ask(session, chat, "Hello").join(60)
    assert "other drafts from now on: 1.8×" in session.store.path(chat)[-1].meta["note"]
    session.unload()
    session.prepare()
    assert drafts(session) == "other.gguf"


def test_drafters_are_compared_once_behind_each_use(session, other, models):
    assert outlook.draft_with_the_quickest(session)
    session.pick_drafter(models / "tiny-drafter-f16.gguf")
    assert not outlook.draft_with_the_quickest(session)
    conversing.ask(session, session.store.create().id, "Hello").join(60)
    assert outlook.draft_with_the_quickest(session)


def test_passes_that_were_disturbed_pick_nothing(session, other, monkeypatch):
    monkeypatch.setattr(outlook, "_sound", lambda _: None)
    assert not outlook.draft_with_the_quickest(session)


def test_the_app_looks_for_itself(tmp_path, models, other):
    sessions = Sessions(find_data_home(tmp_path / "more"), "ada", str(models / "tiny-target-a-f16.gguf"))
    try:
        sessions.get().prepare()
        end = time.monotonic() + 60
        while drafts(sessions.get()) != "other.gguf":
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        sessions.close()


def test_a_drafter_that_was_chosen_stays(session, other, models):
    session.choose_drafter(models / "tiny-drafter-f16.gguf")
    assert not outlook.draft_with_the_quickest(session)
    assert drafts(session) == "tiny-drafter-f16.gguf"


def test_nothing_changes_while_somebody_waits(session, other, monkeypatch):
    monkeypatch.setattr(outlook, "QUIET", 60.0)
    assert not outlook.draft_with_the_quickest(session)
