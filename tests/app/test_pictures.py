"""Conversations about pictures: what the model reads of them, and what is refused before anything is stored."""

from __future__ import annotations

import pytest

from omnidraft.app import conversing
from omnidraft.app.attached import seen_pictures
from omnidraft.app.kept_answer import keep_target
from omnidraft.app.session import Session
from omnidraft.errors import PictureError
from omnidraft.settings.config import with_named_file
from omnidraft.storage.paths import BUNDLED_MODELS, find_data_home
from tests.backends.seeing import needs_eyes, vision_model
from tests.chats.test_pictures import BLUE, RED

pytestmark = needs_eyes


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    home = find_data_home(tmp_path_factory.mktemp("seeing"))
    model, _ = vision_model(home.models, "llava")
    made = Session(home, "default", str(model), None)
    made.apply(**{"model.threads": 1, "sampling.max_tokens": 4, "sampling.temperature": 0.0})
    yield made
    made.close()


def asked(session, chat, text, pictures=()):
    job = conversing.ask(session, chat, text, pictures=pictures)
    job.join(60)
    assert job.error is None
    return job


def test_a_picture_is_read_once_and_every_version_of_an_answer_is_about_it(session):
    chat = session.store.create("one").id
    plain = asked(session, chat, "What?").live.statistics.prompt_tokens
    chat = session.store.create("two").id
    first = asked(session, chat, "What?", [RED])
    assert first.live.statistics.prompt_tokens > plain + 12
    second = asked(session, chat, "And now?")
    assert second.live.statistics.reused_tokens >= first.live.statistics.prompt_tokens
    job = conversing.regenerate(session, chat)
    job.join(60)
    assert job.live.statistics.prompt_tokens == second.live.statistics.prompt_tokens


def test_a_lost_picture_is_named_where_it_stood(session):
    chat = session.store.create("one").id
    asked(session, chat, "What?", [RED])
    session.store._db.run("DELETE FROM pictures WHERE digest = ?", (RED.digest,))
    asked(session, chat, "And now?")
    path = session.store.path(chat)
    read = conversing.messages_of(session.store.get(chat), path, seen_pictures(session, path))
    assert read[0]["content"] == "[picture red.png: damaged or missing]\nWhat?"


def test_a_projector_that_was_chosen_is_in_force_at_the_next_load(session):
    model, named = session.loaded, BUNDLED_MODELS / "mmproj-tiny-target-a2-f16.gguf"  # of another width
    for chosen, sees in (("none", False), (str(named), False), ("", True)):
        said = session.change("projectors", with_named_file(session.settings.projectors, model.name, chosen))
        assert "load the model again" in said
        notices = session.load(model)
        assert (session.assistant.target.eyes is not None) == sees
        assert any("reads text only" in notice for notice in notices) == (chosen == str(named))
    assert session.settings.projectors == ()


def test_a_model_that_cannot_see_refuses_before_anything_is_stored_and_goes_on_without(session):
    chat = session.store.create("one").id
    asked(session, chat, "What?", [RED])
    session.choose(BUNDLED_MODELS / "tiny-target-a-f16.gguf")
    keep_target(session, chat, BUNDLED_MODELS / "tiny-target-a-f16.gguf")
    before = session.store.snapshot(chat)
    with pytest.raises(PictureError, match="cannot see pictures"):
        conversing.ask(session, chat, "And this?", pictures=[BLUE])
    assert session.store.snapshot(chat)[1] == before[1]
    assert any("left out" in said for said in asked(session, chat, "Still there?").live.notices)
