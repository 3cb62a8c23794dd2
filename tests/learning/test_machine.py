"""When training leaves the machine to others."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from omnidraft.learning import update_trigger
from omnidraft.learning.update_trigger import FRESH, PATIENCE, Machine


@pytest.fixture
def now(monkeypatch) -> SimpleNamespace:
    """A machine's load and battery, and the time, to be set."""
    state = SimpleNamespace(time=1000.0, load=10.0, battery=None)
    monkeypatch.setattr(update_trigger.time, "monotonic", lambda: state.time)
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


def test_a_look_after_a_long_time_says_nothing_of_now(now):
    looked = Machine()
    assert looks(looked, now, 2) == ""
    now.time += FRESH
    assert looked.why_wait()
    assert looks(looked, now, 2) == ""


def test_any_load_will_do_where_it_is_told_so(now):
    now.load, eager = 100.0, Machine()
    eager.busy = 2.0
    assert eager.why_wait() == ""
