"""What is too long for the context: a refusal that says so to the API, and nothing that later questions pay for."""

from __future__ import annotations

import gradio as gr
import pytest

from omnidraft.app import conversing
from omnidraft.app.sessions import Sessions
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.ui.fake_assistant import by
from ui.chat.turns import turns
from ui.common import fields
from ui.common.fields import keep

LONG = "All of it matters. " * 2000


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    made = Sessions(find_data_home(tmp_path_factory.mktemp("long")), "ada", "tiny-target-a-f16")
    made.get("ada").apply(**{"model.threads": 1, "model.n_ctx": 1024})
    yield made
    made.close()


@pytest.fixture
def ada(sessions):
    return sessions.get("ada")


def asked(session, chat: str, text: str) -> None:
    session.store.update(chat, sampling=SamplingSettings(temperature=0.0, max_tokens=4))
    conversing.ask(session, chat, text)
    session.job.join(60)
    assert session.job.over


def test_a_message_that_could_not_be_answered_is_left_out_and_says_so(ada):
    chat = ada.store.create().id
    asked(ada, chat, "Good morning")
    asked(ada, chat, LONG)
    assert "needs" in ada.job.error
    marks = turns(ada.store.path(chat), ada.store.versions(chat)).marks
    assert [bool(mark.get("out")) for mark in marks] == [False, False, True, False]
    asked(ada, chat, "And now?")
    assert ada.job.error is None
    assert ada.job.live.notices == [], "nothing earlier had to go for it"
    path = ada.store.path(chat)
    read = [m["content"] for m in conversing.messages_of(ada.store.get(chat), path)]
    assert LONG not in read
    assert read[0] == "Good morning"
    assert read[-2] == "And now?"


def test_a_refused_value_names_the_field_on_the_page(sessions, ada):
    with gr.Blocks() as blocks:
        said, field = gr.HTML(), fields.make("model.n_ctx")
        keep(sessions, {"model.n_ctx": field}, said)
    handler = next(fn.fn for fn in blocks.fns.values())
    told = handler("1", by("ada"))[said]
    assert "Context length is 1, but must be" in told
    assert "n_ctx" not in told
