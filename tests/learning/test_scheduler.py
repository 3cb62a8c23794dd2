"""What learning does next, and when it leaves the machine to others."""

import time
from types import SimpleNamespace

import psutil
import pytest

from omnidraft.learning import scheduler
from omnidraft.learning.scheduler import PATIENCE, Machine, Scheduler, Waits
from omnidraft.learning.store import Counts
from omnidraft.learning.training import process
from omnidraft.learning.update import Job, Update
from omnidraft.settings.config import LearningSettings
from tests.until import until

FAILS = Job(Update(1, 0.0, "d", "t", "v"), "d.gguf", "f", "r.sqlite", "t.npz", "store", seed=101)  # the fake trainer's


def with_answers(**counts: object) -> Scheduler:
    """A scheduler on a quiet machine, with so many answers in its store."""
    pairing = SimpleNamespace(choice=SimpleNamespace(version=None, origin="none", merged=None))
    store = SimpleNamespace(counts=Counts(**counts), refused="", pairing=pairing)
    made = Scheduler(store, lambda: LearningSettings(interval=8), bool)
    made.machine = str
    return made


def test_an_hour_has_room_for_so_many_minutes_and_for_one_update_at_least(monkeypatch):
    monkeypatch.setattr(scheduler, "MINUTES_PER_HOUR", 2.0)
    now = time.time()
    costs = [(now - 4000, 500.0)]  # more than an hour ago
    assert "Enough answers" in with_answers(enough=8, costs=tuple(costs)).status().reason
    costs.insert(0, (now - 60, 50.0))  # another one like it fits
    assert "Enough answers" in with_answers(enough=8, costs=tuple(costs)).status().reason
    costs.insert(0, (now - 30, 50.0))
    full = with_answers(enough=8, costs=tuple(costs))
    assert (full.status().state, full.status().reason) == (
        "due", "Training waits: 1.7 of 2 processor minutes an hour are used.",
    )  # fmt: skip
    assert full.train_now() == ""
    assert full.status().reason == "Training begins as soon as no answer is being written."
    assert full.status().kept.spent(86_400) == 600


def test_what_is_there_for_the_next_update_is_told_with_what_is_not_counted():
    told = "The next update begins at 2 new answers (of models with this vocabulary); 1 so far."
    assert with_answers(fresh=1).status().reason == told


def test_behind_a_failed_update_another_begins_with_as_many_new_answers_again(monkeypatch):
    monkeypatch.setattr(process, "MODULE", "tests.learning.fake_trainer")
    begun, pairing = [], SimpleNamespace(choice=SimpleNamespace(version=None, origin="none", merged=None))
    store = SimpleNamespace(
        counts=Counts(fresh=8, learned=8, enough=8), refused="", pairing=pairing, pair=lambda _: None,
        tidy=lambda: None, begin=lambda *_, **__: begun.append(1) or FAILS, end=lambda _: None,
    )  # fmt: skip
    learner = Scheduler(store, lambda: LearningSettings(interval=8), lambda: True)
    learner.machine, learner.waits = str, Waits(0.0, 0.0)
    learner.paired(pairing)
    until(lambda: (last := learner.status().last) is not None and last.outcome == "failed")
    until(lambda: learner.status().state == "idle")
    store.counts = Counts(fresh=15, learned=8, enough=15)
    learner.wake()
    assert learner.status().state == "idle"
    store.counts = Counts(fresh=16, learned=8, enough=16)
    learner.wake()
    until(lambda: len(begun) == 2)
    learner.unpaired()


@pytest.fixture
def now(monkeypatch) -> SimpleNamespace:
    """A machine's load and battery, and the time, to be set."""
    state = SimpleNamespace(time=1000.0, load=10.0, battery=None)
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: state.time)
    monkeypatch.setattr(psutil, "cpu_percent", lambda: state.load)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: state.battery, raising=False)
    return state


def looks(at: Machine, now: SimpleNamespace, seconds: float) -> str:
    """What it says after looking every quarter of a second."""
    said = at.why_wait()
    for _ in range(int(4 * seconds)):
        now.time += 0.25
        said = at.why_wait()
    return said


def test_a_quiet_machine_trains_once_it_was_looked_at(now):
    now.load = 100.0  # an answer was written until now
    quiet = Machine()
    assert quiet.why_wait()
    now.load = 5.0
    assert looks(quiet, now, 2) == ""


def test_a_busy_machine_waits_but_not_for_ever(now):
    busy, now.load = Machine(), 95.0
    assert "other programs" in looks(busy, now, 10)
    now.load = 20.0
    assert looks(busy, now, 2) == ""
    now.load = 95.0
    assert looks(busy, now, 2)
    assert looks(busy, now, PATIENCE) == ""


def test_on_the_battery_it_waits_as_long_as_that_lasts(now):
    laptop, now.battery = Machine(), SimpleNamespace(power_plugged=False)
    assert "plugged in" in looks(laptop, now, PATIENCE + 10)
    now.battery = SimpleNamespace(power_plugged=True)
    assert looks(laptop, now, 2) == ""
