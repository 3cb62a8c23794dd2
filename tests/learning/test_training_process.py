"""A training process for a job: it tells how far it is, it ends, and nothing of another job is in what comes of it."""

import dataclasses
import os
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.training import process as both_sides
from omnidraft.learning.training.process import TrainingProcess, does
from omnidraft.learning.update import Job, Update

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


def test_a_job_is_told_of_to_its_end_and_its_process_goes_with_it(process):
    pid, told = done(process)
    assert [(u.outcome, u.ended is not None) for u in told] == [("refused", False), ("refused", True)]
    assert told[-1].reason == f"By {pid}."
    assert not psutil.pid_exists(pid)
    assert process.pid is None


def test_a_failure_says_why(process):
    _, told = done(process, seed=1)
    assert (told[-1].outcome, told[-1].reason) == ("failed", "It could not be done.")


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
def test_behind_another_job_comes_byte_for_byte_what_a_process_of_its_own_publishes(job, tmp_path):
    *_, update = TrainingProcess().does(dataclasses.replace(job, store=str(tmp_path / "process")))
    assert update.outcome == "published"
    other = dataclasses.replace(job, seed=4, loss="hybrid", learning_rate=0.5)
    for one, store in ((other, "other"), (job, "behind")):
        list(does(dataclasses.replace(one, store=str(tmp_path / store))))
    assert published(tmp_path / "behind") == published(tmp_path / "process")
    assert published(tmp_path / "behind") != published(tmp_path / "other")
