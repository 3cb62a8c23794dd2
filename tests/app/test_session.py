"""One profile at work: whose model answers, that nobody comes in between, what is refused before it is kept."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest

from omnidraft.app import conversing
from omnidraft.app.kept_answer import keep_target
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.chats import TextFile
from omnidraft.errors import ModelError, OmniDraftError, StorageError
from omnidraft.processes.progress import Overtaken
from omnidraft.server.api import answers as api
from omnidraft.server.api.reply import Reply
from omnidraft.server.api.request import Chat
from omnidraft.settings.file import load_settings
from tests.ui.fake_assistant import fake_sessions

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def first(models):
    return models / "tiny-target-a-f16.gguf"


@pytest.fixture
def second(models):
    return models / "tiny-target-b-f16.gguf"


@pytest.fixture
def session(tmp_path, monkeypatch, first):
    """A session whose command line named the first model."""
    for sessions in fake_sessions(tmp_path, monkeypatch, first):
        yield sessions.get()


def said(session: Session, model) -> Reply:
    """A client of the API asked this model something."""
    info = ModelInfo(path=model, name=model.stem)
    (choice,) = Chat.read({"messages": HELLO}).asked(session).choices
    return session.queue.enter(lambda _: api._answer(session, info.name, info, choice)).begun.result()


def over(session: Session) -> None:
    session.job.join(10)
    assert session.job.over


def test_a_chosen_model_comes_back_though_the_command_line_named_another(session, first, second):
    session.prepare()
    session.choose(second)
    session.unload()
    session.prepare()
    assert session.assistant.loads == [first, second, second]


def test_the_next_message_is_answered_by_the_profiles_model_after_the_api_used_another(session, first, second):
    chat = session.shown.chat().id
    session.choose(first)
    said(session, second)
    over(session)
    assert session.loaded == second
    assert not session.ready
    assert session.target_path() == first
    conversing.ask(session, chat, "Who are you?")
    over(session)
    assert session.assistant.answered == [second.stem, first.stem]
    assert session.store.path(chat)[-1].meta["target"] == first.stem


def meanwhile(act, seconds: float = 0.2) -> tuple[threading.Thread, list[str]]:
    """Try something from another thread, which gets some time for it; what came of it is in the list at the end."""
    told: list[str] = []

    def run() -> None:
        try:
            act()
            told.append("done")
        except OmniDraftError as error:
            told.append(type(error).__name__)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(seconds)
    return thread, told


class SlowLoad:
    """From now on the session's models load until `under_way` ends; loads: which."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.loads, self._load, self._fails = [], session.assistant.load, fails
        self._loading, self._go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(session.assistant, "load", self)

    def __call__(self, target, *given, **more):
        self.loads.append(target)
        self._loading.set()
        assert self._go_on.wait(30)
        if self._fails:
            raise ModelError("It is damaged.")
        return self._load(target, *given, **more)

    @contextmanager
    def under_way(self):
        try:
            assert self._loading.wait(10)
            yield
        finally:
            self._go_on.set()


def test_nobody_loads_another_model_between_the_apis_load_and_its_answer(session, first, second, monkeypatch):
    session.assistant.go_on.clear()
    tried = []
    check = api._checked_grammar

    def slow(*given):
        tried.append(meanwhile(lambda: session.choose(first)))
        return check(*given)

    monkeypatch.setattr(api, "_checked_grammar", slow)
    reply = said(session, second)
    assert not reply.job.over
    thread, told = tried[0]
    thread.join(10)
    assert told == ["StillAnswering"]
    assert session.loaded == second


def test_a_setting_waits_for_no_model_that_is_loaded(session, monkeypatch, second):
    slow = SlowLoad(session, monkeypatch)
    thread, told = meanwhile(lambda: session.choose(second))
    with slow.under_way():
        begun = time.monotonic()
        assert session.change("theme", "dark") == "kept."
        assert session.change("model.n_ctx", 512).startswith("kept; load the model again")
        assert session.change("cache.capacity", 5000).startswith("kept; the cache takes it up")
        assert session.apply(**{"sampling.top_k": 7}).sampling.top_k == 7
        assert session.spread("127.0.0.1:50052").startswith("Kept")
        assert time.monotonic() - begun < 5
        assert not told
    thread.join(10)
    assert told == ["done"]
    kept, _ = load_settings(session.assistant.profile.settings)
    assert (kept.theme, kept.model.n_ctx, kept.sampling.top_k) == ("dark", 512, 7)
    assert (kept.target, session.loaded) == (str(second), second)


@pytest.mark.parametrize("end", ["stop", "fail", "load"])
def test_a_question_is_stored_while_its_model_loads_and_can_be_taken_back(session, monkeypatch, end):
    """Whoever arrives there meanwhile sees it, and follows its answer; it goes if nothing can be loaded."""
    slow = SlowLoad(session, monkeypatch, fails=end == "fail")
    chat = session.shown.chat().id
    asking, told = meanwhile(lambda: conversing.ask(session, chat, "What is 23 + 45?"))
    with slow.under_way():
        assert [m.content for m in session.store.path(chat)] == ["What is 23 + 45?"]
        assert chat in session.queue
        if end == "stop":
            session.stop(chat)
    asking.join(10)
    assert chat not in session.queue
    path = session.store.path(chat)
    if end == "fail":
        assert (path, told) == ([], ["ModelError"])
    elif end == "stop":
        assert session.job is None
        assert path[-1].meta["error"] == "It was taken back before its turn."
    else:
        over(session)
        assert [m.role for m in path] == ["user", "assistant"]


def test_a_new_version_that_no_model_can_answer_leaves_the_one_there(session, monkeypatch):
    chat = session.shown.chat().id
    conversing.ask(session, chat, "One")
    over(session)
    session.unload()
    before = session.store.path(chat)
    slow = SlowLoad(session, monkeypatch, fails=True)
    asking, told = meanwhile(lambda: conversing.edit(session, chat, before[0].id, "Two"))
    with slow.under_way():
        assert session.store.path(chat)[0].content == "Two"
    asking.join(10)
    assert told == ["ModelError"]
    assert session.store.path(chat) == before


def test_the_version_that_was_asked_is_answered_though_another_is_shown_meanwhile(session, monkeypatch):
    chat = session.shown.chat().id
    conversing.ask(session, chat, "One")
    over(session)
    session.unload()
    first = session.store.path(chat)[0]
    slow = SlowLoad(session, monkeypatch)
    asking, told = meanwhile(lambda: conversing.edit(session, chat, first.id, "Two"))
    with slow.under_way():
        session.store.select(first.id)
    asking.join(10)
    assert told == ["done"]
    over(session)
    assert [m.role for m in session.store.path(chat)] == ["user", "assistant"]
    assert session.store.path(chat)[0].content == "Two"


def test_a_question_asked_while_another_model_is_loaded_for_its_conversation_goes_to_that_one(
    session, monkeypatch, first, second
):
    chat = session.shown.chat().id
    conversing.ask(session, chat, "One")
    over(session)
    session.assistant.go_on.set()
    assert conversing.target_of(session, chat) == first
    slow = SlowLoad(session, monkeypatch)
    keep = partial(keep_target, session, chat, second)
    choosing, _ = meanwhile(lambda: session.choose(second, keep))
    with slow.under_way():
        asking, told = meanwhile(lambda: conversing.ask(session, chat, "Two"))
    choosing.join(10)
    asking.join(10)
    assert told == ["done"]
    over(session)
    assert (slow.loads, session.loaded) == ([second], second)


def test_a_drafter_that_cannot_draft_is_refused_before_it_is_kept(session, tmp_path, models):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes((models / "tiny-drafter-f16.gguf").read_bytes()[:5000])
    assert session.loaded is None
    for wrong in (tmp_path, broken, tmp_path / "missing.gguf"):
        with pytest.raises(ModelError):
            session.choose_drafter(wrong)
    assert session.settings.drafter is None
    assert "drafts from now on" in session.choose_drafter(models / "tiny-drafter-f16.gguf")
    assert session.settings.drafter == str(models / "tiny-drafter-f16.gguf")


def test_a_bundled_drafter_that_came_in_another_quantization_is_the_one_that_comes_now(session, models):
    session.apply(drafter=str(models / "smol-drafter-q8_0.gguf"))
    assert session.drafter_path() == models / "smol-drafter-q5_0.gguf"
    for unknown in (str(models / "unknown-q8_0.gguf"), "smol-drafter-q8"):
        session.apply(drafter=unknown)
        assert session.drafter_path() is None


def test_of_two_models_chosen_soon_after_each_other_the_second_answers(session, first, second, monkeypatch):
    reading, load = threading.Event(), session.assistant.load

    def slowly(target, *given, **more):
        while target == first and not session.loading.called_off:
            reading.set()
            time.sleep(0.01)
        return load(target, *given, **more)

    monkeypatch.setattr(session.assistant, "load", slowly)
    told = []

    def choose():
        with pytest.raises(Overtaken) as refused:
            session.choose(first)
        told.append(str(refused.value))

    chosen = threading.Thread(target=choose)
    chosen.start()
    reading.wait(10)
    session.choose(second)
    chosen.join(10)
    assert told == [f"Another model than {first.stem} was chosen meanwhile."]
    assert session.loaded == second
    assert session.settings.target == str(second)


def test_another_unit_leaves_the_cache_as_large_as_it_was(session):
    for unit, capacity in (("MB", 16), ("MB", 16), ("entries", 20_000)):
        session.change("cache.unit", unit)
        assert (session.settings.cache.unit, session.settings.cache.capacity) == (unit, capacity)
    session.change("cache.capacity", 10_000_000)
    session.change("cache.unit", "MB")
    assert session.settings.cache.capacity == 4096
    session.change("cache.capacity", 1)
    session.change("cache.unit", "entries")
    assert session.settings.cache.capacity == 1250


def test_files_that_were_not_sent_go_with_their_conversation_for_good(home):
    session = Session(home, "default", None, None)
    unsent = session.shown.unsent
    first, second, third, fourth = chats = [session.store.create().id for _ in range(4)]
    unsent.update({chat: [TextFile("notes.txt", "Buy milk.")] for chat in chats})
    session.forget(first)
    assert list(unsent) == [second, third, fourth]
    session.deleted.bring_back(session.delete([second]))
    assert second in unsent
    session.delete([second])
    session.delete([third])
    assert list(unsent) == [third, fourth], "what can be taken back has its files still"
    with pytest.raises(StorageError):
        session.delete([fourth, first])
    assert session.store.get(fourth)
    session.forget_everything()
    assert not unsent
    session.close()
