"""Questions that wait for another answer to end: in the order of asking, never lost, taken back, answered once."""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager

import pytest

from omnidraft.app import conversing, waiting
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.session import StillAnswering
from omnidraft.app.waiting import Place, QueueFull
from omnidraft.chats import TextFile
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from tests.ui.fake_assistant import fake_sessions
from tests.until import until

TAKEN_BACK = "It was taken back before its turn."


@pytest.fixture
def session(tmp_path, monkeypatch, models):
    """One whose answers last until they are let go, or are stopped."""
    for sessions in fake_sessions(tmp_path, monkeypatch, models / "tiny-target-a-f16.gguf"):
        sessions.get().assistant.go_on = threading.Event()
        yield sessions.get()


def new(session) -> str:
    return session.store.create("").id


def asked_in(session, *names: str) -> list[str]:
    """Conversations, each with a question; the first one's is being answered."""
    chats = [new(session) for _ in names]
    for chat, name in zip(chats, names, strict=True):
        conversing.ask(session, chat, name)
    return chats


def end_answer(session) -> None:
    """End the answer being written; those behind it last again."""
    job, go_on = session.job, session.assistant.go_on
    session.assistant.go_on = threading.Event()
    go_on.set()
    job.join(10)


def said(session, chat) -> list[tuple[str, str | None]]:
    return [(message.content or message.role, message.meta.get("error")) for message in session.store.path(chat)]


def test_the_next_question_of_the_same_conversation_waits_too_and_only_one(session):
    (chat,) = asked_in(session, "one")
    assert conversing.ask(session, chat, "two") is None
    with pytest.raises(StillAnswering, match="waits already"):
        conversing.ask(session, chat, "three")
    end_answer(session)
    until(lambda: session.writing(chat) and chat not in session.queue)
    assert [text for text, _ in said(session, chat)] == ["one", "assistant", "two", "assistant"]


def test_a_new_version_and_another_answer_wait_too(session):
    edited, again = new(session), new(session)
    for chat in (edited, again):
        conversing.ask(session, chat, "one")
        end_answer(session)
    begun: list[str] = []
    as_a_client(session, begun, "a client")
    until(lambda: begun)
    assert conversing.edit(session, edited, session.store.path(edited)[0].id, "other") is None
    assert conversing.regenerate(session, again) is None
    assert [text for text, _ in said(session, edited)] == ["other"]
    assert len(session.store.path(again)) == 2, "the answer there is shown meanwhile"
    end_answer(session)
    until(lambda: session.writing(edited) and edited not in session.queue)
    with pytest.raises(StillAnswering):
        conversing.edit(session, edited, session.store.path(edited)[0].id, "third")
    end_answer(session)
    until(lambda: session.writing(again))
    assert session.store.versions(again)[session.store.path(again)[-1].id] == (2, 2)


def test_another_answer_that_is_taken_back_leaves_the_one_there(session):
    chat = new(session)
    conversing.ask(session, chat, "one")
    end_answer(session)
    before = session.store.snapshot(chat)
    asked_in(session, "two")
    conversing.regenerate(session, chat)
    session.stop(chat)
    end_answer(session)
    assert session.store.snapshot(chat) == before


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


# Clients of the API beside them


def as_a_client(session, begun: list[str], name: str) -> Place:
    """A request for an answer, as the API makes it."""

    def begin(_: Place) -> None:
        with session.turn():
            session.start(AnswerJob(session.assistant, AnswerRequest([{"role": "user", "content": name}])))
            begun.append(name)

    return session.queue.enter(begin)


def test_pages_and_clients_have_their_turn_in_the_order_of_asking(session):
    begun: list[str] = []
    asked_in(session, "one")
    as_a_client(session, begun, "two")
    (third,) = asked_in(session, "three")
    as_a_client(session, begun, "four")
    (fifth,) = asked_in(session, "five")
    end_answer(session)
    until(lambda: begun == ["two"])
    assert third in session.queue
    assert not session.writing(third)
    end_answer(session)
    until(lambda: session.writing(third))
    assert begun == ["two"]
    end_answer(session)
    until(lambda: begun == ["two", "four"])
    assert not session.writing(fifth)
    end_answer(session)
    until(lambda: session.writing(fifth))
    until(lambda: not len(session.queue))


class Broken:
    """A job with a defect."""

    over = True

    def run(self) -> None:
        raise ZeroDivisionError

    def stop(self) -> None: ...


def test_a_turn_that_ends_with_a_defect_is_followed_by_the_next(session):
    def broken(_: Place) -> None:
        raise ZeroDivisionError

    def too_late(_: Place) -> None:
        session.start(AnswerJob(session.assistant, AnswerRequest([])))
        raise ModelError("It is refused behind its beginning.")

    with pytest.raises(ZeroDivisionError):
        session.queue.enter(broken).outcome()
    with pytest.raises(ModelError):
        session.queue.enter(too_late).outcome()
    assert session.queue.enter(lambda _: session.start(Broken())).outcome()
    begun: list[str] = []
    assert as_a_client(session, begun, "next").outcome() is None
    assert begun == ["next"]


def test_a_full_queue_is_told_and_nothing_is_stored(session, monkeypatch):
    monkeypatch.setattr(waiting, "LONGEST", 1)
    asked_in(session, "one", "two")
    chat = new(session)
    with pytest.raises(QueueFull):
        conversing.ask(session, chat, "three")
    assert session.store.path(chat) == []


def test_going_on_with_an_answer_waits_too_and_is_taken_back(session):
    chat = new(session)
    conversing.ask(session, chat, "one")
    session.stop(chat)
    end_answer(session)
    before = session.store.snapshot(chat)
    asked_in(session, "two")
    assert conversing.resume(session, chat) is None
    session.stop(chat)
    assert session.store.snapshot(chat) == before
    assert conversing.resume(session, chat) is None
    end_answer(session)
    until(lambda: session.writing(chat))
    end_answer(session)
    assert [m.id for m in session.store.path(chat)] == [m.id for m in before[1]]


def test_going_on_that_fails_behind_its_turn_says_so_below_the_answer(session, monkeypatch):
    chat = new(session)
    conversing.ask(session, chat, "one")
    end_answer(session)
    before = session.store.path(chat)[-1]
    asked_in(session, "two")
    assert conversing.resume(session, chat) is None

    def gone(session, chat):
        raise ModelError("It is gone.")

    monkeypatch.setattr(conversing, "target_of", gone)
    end_answer(session)
    until(lambda: chat not in session.queue)
    after = session.store.path(chat)[-1]
    assert (after.id, after.content) == (before.id, before.content)
    assert after.meta["error"] == "It is gone."


def test_who_asks_again_at_once_is_answered_and_what_was_taken_back_says_so(session, monkeypatch):
    _, chat = asked_in(session, "one", "two")
    again = threading.Thread(target=conversing.ask, args=(session, chat, "three"))
    path = session.store.path

    def meanwhile(asked):
        if again.ident is None:
            again.start()
            again.join(0.3)
        return path(asked)

    monkeypatch.setattr(session.store, "path", meanwhile)
    session.stop(chat)
    again.join(10)
    assert said(session, chat) == [("two", None), ("assistant", TAKEN_BACK), ("three", None)]


def test_one_that_is_stopped_as_its_answer_begins_has_that_answer_alone(session, monkeypatch):
    _, chat = asked_in(session, "one", "two")
    select = session.store.select

    def meanwhile(message):
        session.stop(chat)
        return select(message)

    monkeypatch.setattr(session.store, "select", meanwhile)
    end_answer(session)
    until(lambda: len(said(session, chat)) == 2 and not session.store.path(chat)[-1].partial)
    answer = session.store.path(chat)[-1]
    assert (answer.role, answer.meta.get("error")) == ("assistant", None)
    assert len(session.store.siblings(answer.id)) == 1


def test_one_that_is_taken_back_while_long_work_comes_to_stand_still_does_not_begin():
    coming, standing, begun = threading.Event(), threading.Event(), []

    @contextmanager
    def still():
        coming.set()
        standing.wait(10)
        yield

    work = waiting.WorkList(still)
    place = work.enter(begun.append)
    coming.wait(10)
    work.take_back(place)
    last = work.enter(begun.append)
    standing.set()
    last.begun.result(10)
    assert begun == [last]
    work.close()


def test_a_turn_that_is_over_holds_nothing_of_what_it_began():
    """Else the models that it loaded would stay in memory until somebody asks again."""
    work, gone = waiting.WorkList(), threading.Event()

    class Begun:
        pass

    def begin(_place) -> None:
        weakref.finalize(held[0], gone.set)

    held = [Begun()]
    work.enter(lambda place, kept=held[0]: begin(place)).begun.result(10)
    held.clear()
    assert gone.wait(10)
    work.close()
