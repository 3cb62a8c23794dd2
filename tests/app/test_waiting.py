"""Questions that wait for another answer to end: in the order of asking, never lost, taken back, answered once."""

from __future__ import annotations

import threading
import time

import pytest

import omnidraft.app.session
from omnidraft.app import conversing
from omnidraft.app.session import Session, StillAnswering
from omnidraft.chats import TextFile
from omnidraft.errors import ModelError
from omnidraft.storage.paths import find_data_home
from tests.ui.fake_assistant import FakeAssistant


@pytest.fixture
def session(tmp_path, monkeypatch, models):
    """One whose answers last until they are let go, or are stopped."""
    monkeypatch.setattr(omnidraft.app.session, "Assistant", FakeAssistant)
    made = Session(find_data_home(tmp_path / "home"), "default", str(models / "tiny-target-a-f16.gguf"), None)
    made.assistant.go_on = threading.Event()
    yield made
    made.close()


def new(session) -> str:
    return session.store.create("").id


def asked_in(session, *names: str) -> list[str]:
    """Conversations, each with a question; the first one's is being answered."""
    chats = [new(session) for _ in names]
    for chat, name in zip(chats, names, strict=True):
        conversing.ask(session, chat, name)
    return chats


def until(condition) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def end_answer(session) -> None:
    """End the answer being written; those behind it last again."""
    job, go_on = session.job, session.assistant.go_on
    session.assistant.go_on = threading.Event()
    go_on.set()
    job.join(10)


def said(session, chat) -> list[tuple[str, str | None]]:
    return [(message.content or message.role, message.meta.get("error")) for message in session.store.path(chat)]


def test_questions_are_answered_one_after_the_other_in_the_order_of_asking(session):
    first, second, third = asked_in(session, "one", "two", "three")
    assert session.writing(first)
    assert [chat in session.waiting for chat in (first, second, third)] == [False, True, True]
    assert said(session, second) == [("two", None)]
    end_answer(session)
    until(lambda: session.writing(second))
    until(lambda: second not in session.waiting)
    assert third in session.waiting
    session.stop(second)  # a stopped answer ends as well
    until(lambda: len(said(session, third)) == 2)
    assert [role for role, _ in said(session, second)] == ["two", "assistant"]


def test_the_next_question_of_the_same_conversation_waits_too_and_only_one(session):
    (chat,) = asked_in(session, "one")
    assert conversing.ask(session, chat, "two") is None
    with pytest.raises(StillAnswering, match="waits already"):
        conversing.ask(session, chat, "three")
    end_answer(session)
    until(lambda: session.writing(chat) and chat not in session.waiting)
    assert [text for text, _ in said(session, chat)] == ["one", "assistant", "two", "assistant"]


def test_one_that_is_taken_back_is_not_answered_and_stays(session):
    first, second = asked_in(session, "one", "two")
    session.stop(second)
    end_answer(session)
    assert session.writing(second) is False
    assert said(session, second) == [("two", None), ("assistant", "It was taken back before its turn.")]
    assert session.writing(first) is False


def test_one_whose_model_cannot_be_loaded_says_so_and_the_next_begins(session, monkeypatch):
    _, second, third = asked_in(session, "one", "two", "three")
    target_of = conversing.target_of

    def gone(session, chat):
        if chat == second:
            raise ModelError("The model is gone.")
        return target_of(session, chat)

    monkeypatch.setattr(conversing, "target_of", gone)
    end_answer(session)
    until(lambda: session.writing(third))
    assert said(session, second) == [("two", None), ("assistant", "The model is gone.")]


def test_files_do_not_wait_for_nobody_knows_whether_they_fit(session):
    asked_in(session, "one")
    chat = new(session)
    with pytest.raises(StillAnswering):
        conversing.ask(session, chat, "two", [TextFile("a.txt", "a")])
    assert session.store.path(chat) == []


def test_closing_begins_nothing(session):
    _, second = asked_in(session, "one", "two")
    session.close()
    assert session.assistant.answered == ["tiny-target-a-f16"]
    assert second not in session.waiting
