"""One training process for many jobs: nothing of one is in the next, and it ends when it should."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import psutil
import pytest

from omnidraft.learning import trainer_kept, trainer_process
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.job import Job
from omnidraft.learning.trainer_events import Ended, Finished, Refused
from omnidraft.learning.trainer_kept import KeptTrainer
from omnidraft.learning.training.prepared import Prepared
from omnidraft.learning.training.update import run
from omnidraft.settings.config import changed
from omnidraft.storage.paths import find_data_home
from tests.learning.fake_trainer import ANSWERS
from tests.learning.living import ask, open_assistant, until

JOB = Job("d.gguf", "f", "r.sqlite", {}, "store", "v", target="seeded", seed=0)


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(trainer_process, "MODULE", "tests.learning.fake_trainer")


@pytest.fixture
def kept(fake):
    kept = KeptTrainer()
    yield kept
    if kept._process is not None:
        kept._process.kill()


def done(kept: KeptTrainer, **changes):
    """(process, events) of a job that is over."""
    events: list = []
    process = kept.start(dataclasses.replace(JOB, **changes), events.append)
    assert process.wait(240)
    return process, events


def test_the_next_job_is_done_by_the_same_process(kept):
    first, events = done(kept)
    assert [type(e) for e in events] == [Refused, Finished, Ended]
    second, more = done(kept, store="other")
    assert second is first is kept.process
    assert (events[-1].code, more[-1].code) == (0, 0)
    assert more[0].reason == f"job 1 of {first.pid}"


@pytest.mark.parametrize("change", [
    {"replay": "someone else's"}, {"drafter": "e.gguf"}, {"fingerprint": "changed"}, {"cpu_percent": 1000},
])  # fmt: skip
def test_another_profile_drafter_or_number_of_threads_gets_a_process_of_its_own(kept, change):
    first, _ = done(kept)
    second, _ = done(kept, **change)
    assert second is not first
    assert not psutil.pid_exists(first.pid)


def test_after_a_failure_nothing_more_is_done_in_that_process(kept):
    first, events = done(kept, seed=1)
    assert (events[-1].code, kept.process) == (1, None)
    second, events = done(kept)
    assert second is not first
    assert events[-1] == Ended(0, "")


def test_one_that_died_while_it_waited_is_replaced_and_one_that_dies_just_then_is_heard_of(kept):
    first, _ = done(kept)
    psutil.Process(first.pid).kill()
    first._reader.join(30)
    events: list = []
    first.begin(JOB, events.append)
    assert [type(e) for e in events] == [Ended]
    assert events[0].code
    assert done(kept)[0] is not first


def test_one_that_was_stopped_as_its_job_ended_goes_on_with_the_next(kept):
    first, _ = done(kept)
    first.pause()
    until(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    assert done(kept)[0] is first


def test_only_a_waiting_process_is_let_go(kept):
    events: list = []
    working = kept.start(dataclasses.replace(JOB, seed=2), events.append)
    kept.let_go()
    kept.look(0.0)
    assert working.running
    assert kept.seconds_left(1.0) is None
    working.kill()
    assert [type(e) for e in events] == [Ended]
    waiting, _ = done(kept)
    kept.let_go()
    assert not psutil.pid_exists(waiting.pid)


def test_it_goes_when_it_has_waited_long_enough_or_memory_is_short(kept, monkeypatch):
    monkeypatch.setattr(trainer_kept, "SPARE", 0.0)
    waiting, _ = done(kept)
    kept.look(1.0)
    assert 50 < kept.seconds_left(1.0) <= 60
    waiting.free_since = time.monotonic() - 61
    assert kept.seconds_left(1.0) == 0.0
    kept.look(1.0)
    assert not waiting.running
    waiting, _ = done(kept)
    monkeypatch.setattr(trainer_kept, "SPARE", 1.0)
    kept.look(1.0)
    assert not waiting.running


@pytest.fixture
def assistant(fake, models, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_kept, "SPARE", 0.0)
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


def test_no_time_to_wait_is_the_end_at_once_and_closing_ends_it(assistant):
    ask(assistant, range(6))
    pid = trained(assistant, 1)
    assistant.settings = changed(assistant.settings, **{"learning.keep_minutes": 0.0})
    until(lambda: not psutil.pid_exists(pid), "the end of the process")
    assistant.settings = changed(assistant.settings, **{"learning.keep_minutes": 5.0})
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


@pytest.mark.timeout(900)  # the process runs at the lowest priority: on a busy machine it waits
def test_a_kept_process_publishes_byte_for_byte_what_a_fresh_one_does(job, tmp_path):
    trainer, events = KeptTrainer(), []
    other = dataclasses.replace(job, seed=4, learning_rate=0.5)
    try:
        pids = set()
        for one, store in ((other, "other"), (job, "kept")):
            process = trainer.start(dataclasses.replace(one, store=str(tmp_path / store)), events.append)
            assert process.wait(800)
            pids.add(process.pid)
    finally:
        trainer._process.kill()
    assert [e.code for e in events if isinstance(e, Ended)] == [0, 0]
    assert len(pids) == 1
    started, after = [e.cpu_seconds for e in events if isinstance(e, Finished)]
    assert after < started
    list(run(dataclasses.replace(job, store=str(tmp_path / "fresh"))))
    assert published(tmp_path / "kept") == published(tmp_path / "fresh")
    assert published(tmp_path / "kept") != published(tmp_path / "other")


def test_what_was_prepared_for_another_rank_or_seed_changes_nothing(job, tmp_path):
    prepared = Prepared()
    for number, changes in enumerate(({"rank": 4}, {"seed": 9, "loss": "dm"}, {})):
        list(run(dataclasses.replace(job, store=str(tmp_path / str(number)), **changes), prepared))
    list(run(dataclasses.replace(job, store=str(tmp_path / "fresh"))))
    assert published(tmp_path / "2") == published(tmp_path / "fresh")
