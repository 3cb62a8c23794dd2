"""Files against the context: what they take of it is told, and what does not fit is refused or cut as one chose."""

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

LONG = TextFile("long.txt", "".join(f"line {n} of many\n" for n in range(2000)))
SHORT = TextFile("short.txt", "Buy milk.\n")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    made = Sessions(find_data_home(tmp_path_factory.mktemp("attached")), "ada", "tiny-target-a-f16")
    ada = made.get("ada")
    ada.apply(**{"model.threads": 1, "model.n_ctx": 1024, "sampling.max_tokens": 8})
    yield ada
    made.close()


@pytest.fixture
def chat(session):
    return session.store.create("here", system="Be brief.")


def test_without_a_model_sizes_are_estimates(session, chat):
    if session.loaded is not None:
        session.unload()
    found = sizes(session, chat, "", [SHORT, LONG])
    assert (found.exact, found.room, found.too_long) == (False, None, False)
    session.ensure_loaded()
    true = sizes(session, chat, "", [SHORT, LONG])
    assert true.exact
    assert true.too_long
    assert 0.2 < found.tokens[1] / true.tokens[1] < 5


def test_what_fits_goes_whole(session, chat):
    session.ensure_loaded()
    assert fitted(session, chat, "What?", [SHORT], "refuse") == [SHORT]
    found = sizes(session, chat, "What?", [SHORT])
    vocabulary = session.assistant.engine.target.model.vocabulary
    assert found.tokens == [len(vocabulary.encode(SHORT.text))]
    assert 0 < found.room < 1024


def test_too_long_is_refused_unless_a_part_is_chosen(session, chat):
    with pytest.raises(ContextFull, match=r"take [\d,]+ tokens, but \d+ fit"):
        conversing.ask(session, chat.id, "What?", [LONG, SHORT])
    assert session.store.path(chat.id) == []  # nothing is stored of what was not sent


@pytest.mark.parametrize(("which", "has", "has_not"), [("beginning", "line 0 of", "line 1999 of"),
                                                       ("end", "line 1999 of", "line 0 of")])  # fmt: skip
def test_the_part_one_chose_fills_the_room(session, chat, which, has, has_not):
    session.ensure_loaded()
    cut, short = fitted(session, chat, "What?", [LONG, SHORT], which)
    assert short == SHORT
    assert cut.name == f"long.txt ({which})"
    assert has in cut.text
    assert has_not not in cut.text
    messages = [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": with_files("What?", [cut, short])}]  # fmt: skip
    assert 0 <= session.assistant.engine.room(messages, SamplingSettings(max_tokens=8)) < 40
    conversing.ask(session, chat.id, "What?", [LONG, SHORT], which).join(60)
    question, answer = session.store.path(chat.id)
    assert question.files == [cut, short]
    assert "error" not in answer.meta


def test_no_room_at_all_is_said(session, chat):
    with pytest.raises(ContextFull, match="not even a part"):
        conversing.ask(session, chat.id, "word " * 3000, [SHORT], "end")
