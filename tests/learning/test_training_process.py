"""The training process: it tells how far a job is, does the next one, and brings nothing of one into the other."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from omnidraft.learning import update
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.training import process as both_sides
from omnidraft.learning.training.process import TrainingProcess, does
from omnidraft.learning.update import Job, Update
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ask, open_assistant
from tests.until import until

JOB = Job(Update(1, 0.0, "d", "seeded", "v"), "d.gguf", "f", "r.sqlite", "t.npz", "store")


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(both_sides, "MODULE", "tests.learning.fake_trainer")


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


def test_a_job_is_told_of_to_its_end_and_its_process_does_the_next_one(process):
    pid, told = done(process)
    for _ in range(2):
        assert [(u.outcome, u.ended is not None) for u in told] == [("refused", False), ("refused", True)]
        assert told[-1].reason == f"By {pid}."
        again, told = done(process)
        assert again == pid
    process.kill()
    assert not psutil.pid_exists(pid)
    assert process.pid is None


@pytest.mark.parametrize("change", [{"store": "other"}, {"cpu_percent": 100}])
def test_another_profile_or_number_of_threads_gets_a_process_of_its_own(process, change, monkeypatch):
    monkeypatch.setattr(update, "physical_cores", lambda: 2)
    first, _ = done(process)
    second, _ = done(process, **change)
    assert second != first
    assert not psutil.pid_exists(first)


def test_a_failure_says_why_and_nothing_more_is_done_in_that_process(process):
    first, told = done(process, seed=101)
    assert (told[-1].outcome, told[-1].reason) == ("failed", "It could not be done.")
    second, told = done(process)
    assert second != first
    assert told[-1].outcome == "refused"


def test_one_that_died_while_it_waited_is_replaced(process):
    first, _ = done(process)
    psutil.Process(first).kill()
    process._reader.join(60)
    second, told = done(process)
    assert second != first
    assert told[-1].outcome == "refused"


def test_it_goes_when_no_job_comes_for_long():
    script = "from omnidraft.learning.training import process; process.KEPT_SECONDS = 0.1; process.main()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as waiting:
        assert waiting.wait(120) == 0


@pytest.fixture
def assistant(fake, models, tmp_path):
    assistant = open_assistant(find_data_home(tmp_path), models, interval=6)
    yield assistant
    assistant.close()


def trained(assistant, number: int) -> int:
    """The process id of this update, once it is over."""
    until(lambda: (last := assistant.learner.status().last) is not None and last.number == number, "an update")
    return int(assistant.learner.status().last.reason.split()[-1].rstrip("."))


def test_the_app_keeps_it_between_updates_and_lets_it_go_with_its_models(assistant):
    ask(assistant, range(6))
    pid = trained(assistant, 1)
    ask(assistant, range(6, 12), "more-{}")
    assert trained(assistant, 2) == pid
    assert psutil.pid_exists(pid)
    assistant.unload()
    assert not psutil.pid_exists(pid)


def test_an_update_that_is_ended_is_interrupted_and_says_why(process):
    for why, reason in (
        ("The first reason.", "The first reason."),
        ("", "The training process was ended from outside."),
    ):
        told: SimpleQueue[Update] = SimpleQueue()
        process.start(dataclasses.replace(JOB, seed=102), told.put)
        process.kill(why)
        process.kill("another one")
        last = heard(told)[-1]
        assert (last.outcome, last.reason) == ("interrupted", reason)


def published(store: Path) -> list[bytes]:
    version = AdapterStore(store).current()
    return [version.adapter.read_bytes(), version.weights.read_bytes()]


@pytest.fixture
def job(world) -> Job:
    """A short update of the world's answers, whatever it is worth."""
    world.add(world.records[:24])
    return dataclasses.replace(world.job, gated=False, least_steps=2, passes=1, seed=5)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the process runs at the lowest priority: on a busy machine it waits
def test_a_kept_process_publishes_byte_for_byte_what_a_fresh_one_does(job, tmp_path):
    process, told = TrainingProcess(), list[Update]()
    other = dataclasses.replace(job, seed=4, loss="hybrid", learning_rate=0.5, store=str(tmp_path / "kept"))
    try:
        pids = set()
        for one in (other, dataclasses.replace(job, store=other.store)):
            told += process.does(one)
            pids.add(process.pid)
    finally:
        process.kill()
    first, second = (update for update in told if update.ended is not None)
    assert (first.outcome, second.outcome) == ("published", "published")
    assert len(pids) == 1
    assert second.cpu_seconds < first.cpu_seconds
    list(does(dataclasses.replace(job, store=str(tmp_path / "fresh"))))
    assert published(tmp_path / "kept") == published(tmp_path / "fresh")
