"""One training process for many jobs: nothing of one is in the next, and it ends when it should."""

import dataclasses
import os
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from omnidraft.learning import learner, training_process
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.training.process_main import Worker
from omnidraft.learning.training_process import TrainingProcess
from omnidraft.learning.update import Job, Update
from omnidraft.storage.paths import find_data_home
from tests.learning.fake_trainer import ANSWERS
from tests.learning.living import ask, open_assistant, until

JOB = Job(Update(1, 0.0, "d", "seeded", "v"), "d.gguf", "f", "r.sqlite", "t.npz", "store")


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(training_process, "MODULE", "tests.learning.fake_trainer")


@pytest.fixture
def process(fake):
    process = TrainingProcess()
    yield process
    process.kill()


def done(process: TrainingProcess, **changes):
    """(process id, what was told) of a job that is over."""
    told: SimpleQueue[Update] = SimpleQueue()
    process.start(dataclasses.replace(JOB, **changes), told.put)
    return process.pid, heard(told)


def heard(told: SimpleQueue) -> list[Update]:
    """All of it, until the last word."""
    updates = [told.get(timeout=240)]
    while updates[-1].ended is None:
        updates.append(told.get(timeout=240))
    return updates


def test_the_next_job_is_done_by_the_same_process(process):
    first, told = done(process)
    assert [(u.outcome, u.ended is not None) for u in told] == [("refused", False), ("refused", True)]
    second, more = done(process, store="other")
    assert second == first == process.pid
    assert more[-1].reason == f"Job 1 of {first}."


@pytest.mark.parametrize("change", [
    {"replay": "someone else's"}, {"drafter": "e.gguf"}, {"fingerprint": "changed"}, {"cpu_percent": 1000},
])  # fmt: skip
def test_another_profile_drafter_or_number_of_threads_gets_a_process_of_its_own(process, change):
    first, _ = done(process)
    second, _ = done(process, **change)
    assert second != first
    assert not psutil.pid_exists(first)


def test_after_a_failure_nothing_more_is_done_in_that_process(process):
    first, told = done(process, seed=1)
    assert (told[-1].outcome, told[-1].reason) == ("failed", "It could not be done.")
    second, told = done(process)
    assert second != first
    assert told[-1].outcome == "refused"


def test_an_update_that_is_ended_is_interrupted_and_says_why(process):
    for why, reason in (
        ("The first reason.", "The first reason."),
        ("", "The training process was ended from outside."),
    ):
        told: SimpleQueue[Update] = SimpleQueue()
        process.start(dataclasses.replace(JOB, seed=2), told.put)
        process.kill(why)
        process.kill("another one")
        last = heard(told)[-1]
        assert (last.outcome, last.reason) == ("interrupted", reason)


@pytest.fixture
def assistant(fake, models, tmp_path, monkeypatch):
    monkeypatch.setattr(training_process, "SPARE", 0.0)
    assistant = open_assistant(find_data_home(tmp_path), models, interval=ANSWERS)
    yield assistant
    assistant.close()


def trained(assistant, number: int) -> int:
    """The process id of this update, once it is over."""
    until(lambda: (last := assistant.learner.status().last) is not None and last.number == number, "an update")
    until(lambda: assistant.learner.status().pid is None)
    return int(assistant.learner.status().last.reason.split()[-1].rstrip("."))


def test_the_app_keeps_it_between_updates_and_lets_it_go_for_models_and_at_its_end(assistant):
    ask(assistant, range(6))
    pid = trained(assistant, 1)
    ask(assistant, range(6, 12), "more-{}")
    assert trained(assistant, 2) == pid
    assert psutil.pid_exists(pid)
    assert assistant.learner.status().state == "idle"
    assistant.unload()
    assert not psutil.pid_exists(pid)


def test_no_time_to_wait_is_the_end_at_once_and_closing_ends_it(assistant, monkeypatch):
    ask(assistant, range(6))
    pid = trained(assistant, 1)
    monkeypatch.setattr(learner, "KEPT_MINUTES", 0.0)
    assistant.learner.wake()
    until(lambda: not psutil.pid_exists(pid), "the end of the process")
    monkeypatch.setattr(learner, "KEPT_MINUTES", 5.0)
    ask(assistant, range(6, 12), "more-{}")
    pid = trained(assistant, 2)
    assert psutil.pid_exists(pid)
    assistant.learner.close()
    assert not psutil.pid_exists(pid)


def published(store: Path) -> list[bytes]:
    version = AdapterStore(store).current()
    return [version.adapter.read_bytes(), version.weights.read_bytes()]


@pytest.fixture
def job(world) -> Job:
    """A short update of the world's answers, whatever it is worth, on one thread."""
    world.add(world.records[:24])
    share = 100 // (os.cpu_count() or 1)
    return dataclasses.replace(world.job, gated=False, least_steps=2, passes=1, cpu_percent=share, seed=5)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the process runs at the lowest priority: on a busy machine it waits
def test_a_kept_process_publishes_byte_for_byte_what_a_fresh_one_does(job, tmp_path):
    process, told = TrainingProcess(), list[Update]()
    other = dataclasses.replace(job, seed=4, loss="dm", learning_rate=0.5)
    try:
        pids = set()
        for one, store in ((other, "other"), (job, "kept")):
            told += process.does(dataclasses.replace(one, store=str(tmp_path / store)))
            pids.add(process.pid)
    finally:
        process.kill()
    first, second = (update for update in told if update.ended is not None)
    assert (first.outcome, second.outcome) == ("published", "published")
    assert len(pids) == 1
    assert second.cpu_seconds < first.cpu_seconds
    list(Worker().does(dataclasses.replace(job, store=str(tmp_path / "fresh"))))
    assert published(tmp_path / "kept") == published(tmp_path / "fresh")
    assert published(tmp_path / "kept") != published(tmp_path / "other")
