"""What a model reads of a conversation: files against its context, and messages that were too long.
One bundled model for all of it."""

from __future__ import annotations

import pytest

from omnidraft.app import conversing
from omnidraft.app.attached import fitted, sizes
from omnidraft.app.sessions import Sessions
from omnidraft.chats import TextFile
from omnidraft.chats.pictures import with_files
from omnidraft.errors import ContextFull
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import find_data_home
from ui.chat.attachments import chips
from ui.chat.turns import turns

LONG = TextFile("long.txt", "".join(f"line {n} of many\n" for n in range(2000)))
SHORT = TextFile("short.txt", "Buy milk.\n")


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    made = Sessions(find_data_home(tmp_path_factory.mktemp("conversing")), "ada", "tiny-target-a-f16")
    short = {"sampling.max_tokens": 8, "sampling.temperature": 0.0}
    made.get("ada").apply(**{"model.threads": 1, "model.n_ctx": 1024}, **short)
    yield made
    made.close()


@pytest.fixture
def session(sessions):
    ada = sessions.get("ada")
    ada.prepare()
    return ada


@pytest.fixture
def chat(session):
    return session.store.create("here", system="Be brief.")


def over(job):
    job.join(60)
    assert job.over
    return job


def asked(session, chat: str, text: str, *given):
    return over(conversing.ask(session, chat, text, *given))


# Files


def test_without_a_model_sizes_are_estimates(session, chat):
    session.unload()
    found = sizes(session, chat, "", [SHORT, LONG])
    assert (found.exact, found.room, found.too_long) == (False, None, False)
    session.prepare()
    true = sizes(session, chat, "", [SHORT, LONG])
    assert true.exact
    assert true.too_long
    assert 0.2 < found.tokens[1] / true.tokens[1] < 5


def test_what_fits_goes_whole(session, chat):
    assert fitted(session, chat, "What?", [SHORT]) == [SHORT]
    found = sizes(session, chat, "What?", [SHORT])
    assert found.tokens == [len(session.assistant.engine.target.model.vocabulary.encode(SHORT.text))]
    assert 0 < found.room < 1024


def test_of_what_is_too_long_the_beginning_fills_the_room(session, chat):
    cut, short = fitted(session, chat, "What?", [LONG, SHORT])
    assert (short, cut.name) == (SHORT, "long.txt (beginning)")
    assert "line 0 of" in cut.text
    assert "line 1999 of" not in cut.text
    messages = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": with_files("What?", [cut, short])}]  # fmt: skip
    assert 0 <= session.assistant.engine.room(messages, SamplingSettings(max_tokens=8)) < 40
    asked(session, chat.id, "What?", [LONG, SHORT])
    question, answer = session.store.path(chat.id)
    assert question.files == [cut, short]
    assert "error" not in answer.meta


def test_of_what_is_too_long_the_parts_that_the_question_names_go(session, chat):
    text = LONG.text.replace("line 1700 of many", "The bell was cast in Bremen")
    (cut,) = fitted(session, chat, "Where was the bell cast?", [TextFile("book.txt", text)])
    assert cut.name == "book.txt (parts)"
    assert "cast in Bremen" in cut.text
    assert "line 900 " not in cut.text


def test_a_larger_context_is_offered_where_the_model_was_trained_for_it(session, chat):
    assert sizes(session, chat, "What?", [LONG]).larger is None, "it was not trained for so many"
    session.change("model.n_ctx", 512)
    try:
        session.unload()
        session.prepare()
        found = sizes(session, chat, "What?", [TextFile("a.txt", "line of many\n" * 150)])
        assert (found.too_long, found.larger) == (True, 1024)
        assert "Raise the context to 1,024" in chips([SHORT], found)
        assert sizes(session, chat, "What?", [SHORT]).larger is None
    finally:
        session.change("model.n_ctx", 1024)
        session.unload()


def test_where_not_even_a_beginning_fits_nothing_is_sent_or_stored(session, chat):
    with pytest.raises(ContextFull, match=r"take [\d,]+ tokens, but 0 fit"):
        conversing.ask(session, chat.id, "word " * 3000, [SHORT])
    assert session.store.path(chat.id) == []


# Messages that are too long


def test_a_message_that_could_not_be_answered_is_left_out_and_says_so(session):
    chat, long = session.store.create().id, "All of it matters. " * 2000
    asked(session, chat, "Good morning")
    assert "needs" in asked(session, chat, long).error
    marks = turns(session.store.path(chat), session.store.versions(chat)).marks
    assert [bool(mark.get("out")) for mark in marks] == [False, False, True, False]
    job = asked(session, chat, "And now?")
    assert (job.error, job.live.notices) == (None, []), "nothing earlier had to go for it"
    path = session.store.path(chat)
    read = [m["content"] for m in conversing.messages_of(session.store.get(chat), path)]
    assert long not in read
    assert (read[0], read[-2]) == ("Good morning", "And now?")


def test_a_change_of_models_is_told_only_where_another_one_has_answered(session):
    chat = session.store.create().id
    for _ in range(2):
        session.switched[chat] = "The other answers from here on."
        asked(session, chat, "Hello")
    notes = [message.meta.get("note") for message in session.store.path(chat) if message.role == "assistant"]
    assert notes == [None, "The other answers from here on."]


def test_an_answer_that_was_stopped_before_its_first_word_is_not_read(session, chat):
    for role, text in (("user", "What is gravity?"), ("assistant", ""), ("user", "And what is light?")):
        session.store.append(chat.id, role, text)
    read = conversing.messages_of(session.store.get(chat.id), session.store.path(chat.id))
    assert [message["role"] for message in read] == ["system", "user", "user"]
