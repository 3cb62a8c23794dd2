"""Learning in the app, from an answer to the next version that drafts, with the real training process."""

import time

import pytest

from omnidraft.app.assistant import Assistant, Busy
from omnidraft.chats import ChatStore
from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning import store
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.material.record import encode
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training import process
from omnidraft.settings.config import changed
from omnidraft.storage.paths import find_data_home
from tests.learning.living import FIXED, GREEDY, HASTY, ONE, PROMPTS, ask, open_assistant
from tests.until import until

SECRET = "How many walruses live in Quxington harbour 77310?"


@pytest.fixture(scope="module", autouse=True)
def hasty():
    """Ten steps teach enough; that the first update takes more is said elsewhere."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process, "MODULE", HASTY)
        patched.setattr(store, "MORE_STEPS", 10)
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return find_data_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def taught(home, models):
    """An assistant that has learned once: from 12 answers, one of them to the secret, and then served what it made."""
    assistant = open_assistant(home, models, interval=12)
    states = set()
    assistant.store = ChatStore(assistant.profile.chats)
    assistant.secret = assistant.store.create().id
    assistant.store.append(assistant.secret, "user", SECRET)
    assistant.learner.hold()
    ask(assistant, range(1), assistant.secret, SECRET)
    ask(assistant, range(11))
    assistant.learner.hold(False)

    def served() -> bool:
        states.add(assistant.learner.status().state)
        return assistant.learner.status().served is not None and assistant.learner.status().merged

    until(served, "an update")
    assistant.states = states
    yield assistant
    assistant.close()
    assistant.store.close()


def test_an_update_is_trained_judged_and_served_while_nobody_waits(taught):
    status, (version,), (update,) = taught.learner.status(), taught.learned.versions(), taught.learned.history()
    assert taught.states >= {"idle", "training"}
    assert (status.state, status.kept.fresh, status.update) == ("idle", 0, None)
    assert status.served == version.version.name == update.version == "v000001"
    assert (status.origin, version.served, update.outcome) == ("own", True, "published")
    assert (update.answers_new, update.step) == (9, update.steps)  # of the first answers every fourth is held out
    assert len(update.losses) == update.steps
    assert update.losses[-1] < update.losses[0]
    assert update.after["new"]["greedy"] > update.before["new"]["greedy"]
    assert 0 < update.peak_mb < 1000
    assert update.cpu_seconds > 0


def test_answers_under_the_new_version_are_counted_for_it(taught):
    before = len(taught.learned.served_answers())
    (finished,) = ask(taught, range(20, 21))
    until(lambda: len(taught.learned.served_answers()) > before)
    served = taught.learned.served_answers()[-1]
    assert (served.version, served.tested) == ("v000001", finished.statistics.tested)
    until(lambda: taught.learned.versions()[0].live_answers == 1)


def test_text_is_the_same_before_and_after_a_swap(taught, home, models):
    plain = Assistant(home, ephemeral=True)
    plain.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
    ids = [
        [e.id for e in a.answer(AnswerRequest(PROMPTS[5].messages, GREEDY, FIXED)) if hasattr(e, "id")]
        for a in (plain, taught)
    ]
    assert ids[0] == ids[1]
    plain.close()


def test_going_back_serves_what_was_chosen_once_it_can(taught):
    running = taught.answer(AnswerRequest(PROMPTS[0].messages, GREEDY, FIXED))
    next(running)
    assert "drafter as it came" in taught.learner.choose(None)
    assert taught.learner.status().served == "v000001", "an answer has the models"
    running.close()
    until(lambda: taught.learner.status().served is None)
    ask(taught, range(1), "chat-x")
    assert AdapterStore(taught.learned.versions()[0].version.path.parent).current() is None
    until(lambda: taught.learner.status().kept.answers == 14)  # all that were asked so far


def test_what_was_forgotten_is_in_no_file_and_no_version(taught, home):
    """After the tests above, so that everything has been written that ever will be."""
    chat = taught.secret
    (meta,) = taught.profile.adapters.glob("*/*/v000001/meta.json")
    with ReplayStore(taught.profile.replay) as replay:
        (record,) = [encode(replay.get(o)) for o, a in replay.answers.items() if a.chat == chat]
    assert chat in meta.read_text()
    assert {f.name.partition("-")[0] for f in holding(home, SECRET, chat, record)} >= {"chats.sqlite", "replay.sqlite"}
    assert list(taught.profile.root.glob("merged/*/*/*"))
    answers = taught.learner.status().kept.answers
    gone = taught.forget(taught.store, chat)
    assert (gone.conversations, gone.answers, gone.versions) == (1, 1, ("v000001",))
    assert "v000001" in gone.sentence()
    assert not list(taught.profile.root.glob("merged/*/*/*"))
    assert holding(home, SECRET, chat, record) == []
    assert taught.learner.status().served is None
    until(lambda: taught.learner.status().kept.answers == answers - 1)
    assert ask(taught, range(1))[0].statistics.proposed  # and it drafts on


def test_forgetting_everything_leaves_the_settings_and_goes_on(taught, home):
    taught.store.append(taught.store.create().id, "user", SECRET)
    ask(taught, range(1), "chat-of-77310")
    until(lambda: holding(home, "chat-of-77310"))
    gone = taught.forget_everything(taught.store)
    assert gone.conversations == 1
    assert taught.store.conversations() == []
    assert holding(home, SECRET, "chat-of-77310") == []
    assert taught.learner.status().kept.answers == 0
    assert ask(taught, range(1))[0].statistics.proposed


def holding(home, *needles: str | bytes) -> list:
    """Files of the data home with one of these in them."""
    found = [n if isinstance(n, bytes) else n.encode() for n in needles]
    return [f for f in home.root.rglob("*") if f.is_file() and any(n in f.read_bytes() for n in found)]


def test_nothing_is_forgotten_under_a_running_answer(taught, tmp_path):
    with ChatStore(tmp_path / "chats.sqlite") as store:
        running = taught.answer(AnswerRequest(PROMPTS[0].messages, GREEDY, FIXED, source="c", capture=taught.capture))
        next(running)
        with pytest.raises(Busy):
            taught.forget_everything(store)
        running.close()


def test_off_is_off_and_ephemeral_leaves_no_replay(home, models, tmp_path):
    for number, options in enumerate(({"ephemeral": True}, {"ephemeral": True, "learn": True}, {})):
        assistant = Assistant(find_data_home(tmp_path / str(number)), **options)
        assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
        ask(assistant, range(1))
        assert assistant.learner.status().state == "unavailable"
        assistant.close()
        assert not assistant.profile.replay.exists()
    off = open_assistant(find_data_home(tmp_path / "off"), models, enabled=False)
    ask(off, range(2))
    assert (off.learner.status().state, off.learner.status().kept.answers) == ("off", 0)
    off.close()


def test_a_second_program_answers_but_does_not_learn(home, taught, models):
    second = open_assistant(home, models)
    assert second.learner.status().state == "unavailable"
    assert "Another program" in second.learner.status().reason
    ask(second, range(1))
    second.close()


def test_an_answer_pauses_training_at_once_and_the_user_can_too(home, models, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MORE_STEPS", 4000)  # it does not end by itself
    assistant = open_assistant(find_data_home(tmp_path), models, interval=6)
    assistant.learner.hold()
    ask(assistant, range(6))
    assistant.learner.hold(False)
    until(lambda: assistant.learner.status().state == "training")
    running = assistant.answer(
        AnswerRequest(PROMPTS[9].messages, GREEDY, FIXED, source="c9", capture=assistant.capture)
    )
    next(running)
    assert assistant.learner.status().state == "paused"
    running.close()
    until(lambda: assistant.learner.status().state == "training")
    assistant.learner.hold()
    assert (assistant.learner.status().state, assistant.learner.status().held) == ("paused", True)
    time.sleep(0.5)
    assert assistant.learner.status().state == "paused"
    assistant.learner.hold(False)
    until(lambda: assistant.learner.status().state == "training")
    assistant.settings = changed(assistant.settings, **{"learning.enabled": False})
    until(lambda: assistant.learner.status().last)
    assert assistant.learner.status().last.outcome == "interrupted"
    assistant.close()


def test_an_update_that_the_user_wants_is_announced_until_it_begins(taught):
    learner, quickly = taught.learner, taught.learner.waits.start
    learner.waits.start = 3600.0
    is_due = lambda: learner.status().state == "due"  # noqa: E731
    for number in range(12, 48):  # as many as it takes: tests before may have stopped an update, which takes twice
        if not is_due():
            ask(taught, range(number, number + 1))
    until(is_due, "more answers than an update takes")
    assert learner.status().reason == "Enough answers are new; training begins once nobody asked for a while."
    assert learner.train_now() == ""
    status = learner.status()
    assert (status.state, status.reason) == ("due", "Training begins as soon as no answer is being written.")
    learner.waits.start = quickly
    learner.wake()
    seen = [status]
    until(lambda: seen.append(learner.status()) or seen[-1].state == "training", "training")
    assert "Training begins" not in seen[-1].reason
