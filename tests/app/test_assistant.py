"""One profile behind one lock: loading, the n-gram cache on disk, stopping, and what a failure leaves behind."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from omnidraft.app.assistant import CAPTURE, Assistant
from omnidraft.decoding.events import Finished, Notice
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, StorageError
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings, changed
from omnidraft.storage.paths import find_data_home
from tests.answering import ids_of

GREEDY = SamplingSettings(temperature=0.0, max_tokens=32)
FIXED = DraftSettings(mode="fixed", length=4)
QUESTION = [{"role": "user", "content": "Write a Python function that adds two numbers."}]
ONE = ModelSettings(threads=1)


@pytest.fixture(scope="module")
def files(models):
    return models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf"


@contextmanager
def opened(home, files):
    assistant = Assistant(home)
    assistant.load(*files, ONE)
    try:
        yield assistant
    finally:
        assistant.close()


@pytest.fixture
def assistant(home, files):
    with opened(home, files) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory, files):
    """For tests that leave it as it was."""
    with opened(find_data_home(tmp_path_factory.mktemp("shared")), files) as made:
        yield made


def ask(assistant, sampling=GREEDY, draft=FIXED) -> list:
    return list(assistant.answer(AnswerRequest(QUESTION, sampling, draft)))


def learned(path) -> int:
    """Rows of n-grams in a cache file."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return sum(connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in tables)


def test_what_the_cache_learned_is_on_disk_after_every_answer_and_after_a_restart(assistant, home, files):
    ask(assistant)
    after_one = learned(assistant.profile.ngrams)
    assert after_one > 1
    top = assistant.loaded.cache.top(5)
    assistant.close()
    again = Assistant(home)
    again.load(*files, ONE)
    assert again.loaded.cache.top(5) == top
    again.close()


def test_a_cache_at_work_takes_up_another_size_when_the_answer_is_over(assistant):
    answer = assistant.answer(AnswerRequest(QUESTION, GREEDY, FIXED))
    next(answer)
    assistant.settings = changed(assistant.settings, **{"cache.capacity": 50})
    assert not assistant.resize_cache()
    capacity = lambda: assistant.loaded.cache.stats()["capacity"]  # noqa: E731
    assert capacity() > 50
    answer.close()
    assert capacity() == 50
    assistant.settings = changed(assistant.settings, **{"cache.capacity": 30})
    assert assistant.resize_cache()
    assert capacity() == 30


def damaged(tmp_path, files):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(files[0].read_bytes()[:100_000])
    return cut


@pytest.mark.parametrize("what", ["target", "drafter", "adapter"])
def test_what_is_loaded_goes_on_answering_when_its_replacement_cannot_be_loaded(shared, files, tmp_path, what):
    before = ids_of(ask(shared))
    bad = damaged(tmp_path, files)
    with pytest.raises((ModelError, StorageError)):
        shared.load(
            bad if what == "target" else files[0].with_name("tiny-target-b-f16.gguf"),
            bad if what == "drafter" else files[1],
            ONE,
            adapter=bad if what == "adapter" else None,
        )
    assert shared.target.name == "tiny-target-a"
    events = ask(shared)
    assert ids_of(events) == before
    assert events[-1].statistics.proposed > 0


def test_only_one_answer_runs_at_a_time(shared):
    running, others = shared.answer(AnswerRequest(QUESTION, GREEDY, FIXED)), []
    next(running)
    waiting = threading.Thread(target=lambda: others.extend(ask(shared)))
    waiting.start()
    waiting.join(0.2)
    assert others == []
    rest = list(running)
    waiting.join(30)
    assert ids_of(others)[-len(ids_of(rest)) :] == ids_of(rest)


def test_stopping_from_another_thread_ends_the_answer_and_keeps_what_was_learned(assistant):
    assistant.target.vocabulary.eog = frozenset()  # an answer without an end of its own
    events = []
    for event in assistant.answer(
        AnswerRequest(QUESTION, SamplingSettings(temperature=1.0, seed=1, max_tokens=100_000), FIXED)
    ):
        events.append(event)
        if len(ids_of(events)) == 50:
            stopper = threading.Thread(target=assistant.stop)
            stopper.start()
            stopper.join()
    assert events[-1].reason == "cancelled"
    assert 50 <= len(ids_of(events)) < 60
    assert learned(assistant.profile.ngrams) > 0


def test_a_cache_that_cannot_be_written_costs_a_notice_not_the_answer(assistant, monkeypatch):
    def full_disk():
        raise StorageError("The n-gram cache cannot be used: database or disk is full.")

    monkeypatch.setattr(assistant.loaded.cache, "commit", full_disk)
    events = ask(assistant)
    assert isinstance(events[-2], Finished)
    assert events[-1] == Notice("The n-gram cache cannot be used: database or disk is full.")
    running = assistant.answer(AnswerRequest(QUESTION, GREEDY, FIXED))
    next(running)
    running.close()
    monkeypatch.undo()
    assert ids_of(ask(assistant)) == ids_of(events)
    assert learned(assistant.profile.ngrams) > 0


def test_the_learner_gets_finished_answers_with_the_targets_candidates(home, models, monkeypatch):
    assistant, heard = Assistant(home, learn=True), []
    monkeypatch.setattr(assistant.learner, "take", heard.append)
    assistant.load(models / "tiny-target-a-f16.gguf", models / "tiny-drafter-f16.gguf", ONE)
    events = list(assistant.answer(AnswerRequest(QUESTION, GREEDY, FIXED, source="c1", capture=assistant.capture)))
    running = assistant.answer(AnswerRequest(QUESTION, GREEDY, FIXED, source="c2", capture=assistant.capture))
    next(running)
    running.close()  # abandoned: nobody hears of it
    (answered,) = heard
    assert (answered.request.source, answered.request.prompt) == ("c1", QUESTION)
    assert [t.id for t in answered.tokens] == ids_of(events)
    assert all(len(t.candidates.ids) == CAPTURE for t in answered.tokens)
    assistant.close()
