"""What learning does next, and when it leaves the machine to others."""

import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest

from omnidraft.learning import learner, update
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.learner import PATIENCE, Machine
from omnidraft.learning.material.history import History
from omnidraft.learning.update import State, Update, Updates
from omnidraft.settings.config import LearningSettings


def test_an_hour_has_room_for_so_many_minutes_and_for_one_update_at_least(tmp_path, monkeypatch):
    history = History(tmp_path / "metrics.sqlite")
    due = Updates(SimpleNamespace(refused="", enough=8, history=history), None)
    monkeypatch.setattr(update, "MINUTES_PER_HOUR", 2.0)

    def trained(number: int, ago: float, cpu_seconds: float) -> None:
        ended = time.time() - ago
        history.save("d/v", Update(number, ended - 1, "d", "t", "v", "refused", ended=ended, cpu_seconds=cpu_seconds))

    assert due.why_wait() == ""
    trained(1, 4000, 500)  # an hour ago
    assert due.why_wait() == ""
    trained(2, 60, 50)
    assert due.why_wait() == ""  # another one like it fits
    trained(3, 30, 50)
    assert "1.7 of 2" in due.why_wait()
    due.forced = True
    assert due.why_wait() == ""
    assert history.spent(86_400) == 600
    history.close()


def test_what_was_refused_is_not_trained_on_again_and_stands_in_the_history(tmp_path, models):
    history, store = History(tmp_path / "metrics.sqlite"), AdapterStore(tmp_path / "adapters" / "d" / "v")
    stores = SimpleNamespace(files=(SimpleNamespace(path=tmp_path / "replay.sqlite"), history), fresh=8)
    updates = Updates(stores, Adapters(tmp_path / "adapters"))
    target = SimpleNamespace(fingerprint="v")
    pairing = SimpleNamespace(
        choice=Choice(models / "tiny-drafter-f16.gguf", store=store), target="t", pair=SimpleNamespace(target=target)
    )
    job = updates.begin(pairing, LearningSettings(), tmp_path / "table")
    judging = replace(job.update, state=State.JUDGING, through=40)
    updates.follow(judging)
    assert (updates.running, store.through) == (judging, 0)
    updates.follow(judging.said("refused", "no better").concluded(0, ""))
    assert (updates.running, store.through) == (None, 40)
    assert [(u.number, u.outcome, u.reason) for u in history.updates(store="d/v")] == [(1, "refused", "No better.")]
    history.close()


@pytest.mark.parametrize(("interval", "began"), [(16, [4, 8, 16, 32, 48]), (3, [1, 2, 4, 7, 10])])
def test_the_first_answers_are_learned_from_soon_and_later_ones_at_the_interval(interval, began):
    found, learned = [], 0
    for answers in range(1, began[-1] + 1):
        stores = SimpleNamespace(refused="", enough=answers - learned, fresh=answers - learned, learned=learned)
        if Updates(stores, None).due(LearningSettings(interval=interval)):
            found, learned = [*found, answers], answers
    assert found == began


def test_what_is_there_for_the_next_update_is_told_with_what_is_not_counted():
    due = Updates(SimpleNamespace(refused="", enough=0, fresh=1), None)
    assert due.idle_reason(8) == ("The next update begins at 8 new answers (of models with this vocabulary); 1 so far.")


def test_what_an_earlier_program_wrote_of_an_update_is_read():
    old = {"number": 1, "started": 1.0, "drafter": "d", "target": "t", "vocabulary": "v", "losses": [2.0], "kind": "x"}
    read = Update.of(old)
    assert (read.losses, read.ended) == ((2.0,), None)
    assert Update.from_line(read.to_line()) == read
    assert [Update.from_line(line) for line in ("loading ...", "3", "{}")] == [None] * 3


@pytest.fixture
def now(monkeypatch) -> SimpleNamespace:
    """A machine's load and battery, and the time, to be set."""
    state = SimpleNamespace(time=1000.0, load=10.0, battery=None)
    monkeypatch.setattr(learner.time, "monotonic", lambda: state.time)
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
