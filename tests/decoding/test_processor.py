"""Whether the processor worked for this program, by counts as a busy system would give them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omnidraft.processes import contention
from omnidraft.processes.contention import Contention


@pytest.fixture
def system(monkeypatch) -> SimpleNamespace:
    """A machine of two processors whose counts a test sets."""
    now = SimpleNamespace(wall=0.0, own=0.0, idle=[0.0, 0.0], user=[0.0, 0.0])

    class Times(tuple):
        idle = 0.0

    def times(percpu):
        found = []
        for idle, user in zip(now.idle, now.user, strict=True):
            cpu = Times((user, idle))
            cpu.idle = idle
            found.append(cpu)
        return found

    monkeypatch.setattr(contention, "_allowed", lambda: [0, 1])
    monkeypatch.setattr(contention.psutil, "cpu_times", times)
    monkeypatch.setattr(contention, "perf_counter", lambda: now.wall)
    monkeypatch.setattr(contention, "process_time", lambda: now.own)
    return now


def goes_on(now: SimpleNamespace, *, own: float, others: float) -> None:
    """One second, in which this program and others use so many processors."""
    now.wall += 1.0
    now.own += own
    for i in range(2):
        now.user[i] += (own + others) / 2
        now.idle[i] += 1.0 - (own + others) / 2


@pytest.mark.parametrize(
    ("own", "others", "quiet"), [(1.9, 0.1, True), (1.0, 0.1, True), (1.3, 0.7, False), (0.7, 0.6, True)]
)
def test_others_disturb_where_they_leave_no_time(system, own, others, quiet):
    contended = Contention()
    goes_on(system, own=own, others=others)
    assert contended.quiet_since() is quiet


def test_the_last_answer_holds_until_there_is_enough_to_tell(system):
    contended = Contention()
    goes_on(system, own=1.0, others=1.0)
    assert not contended.quiet_since()
    system.wall += 0.01
    assert not contended.quiet_since()
    goes_on(system, own=2.0, others=0.0)
    assert contended.quiet_since()


def test_what_another_model_of_this_program_computes_is_left_to_it(system):
    """Few steps between the passes of a target that takes all processors."""
    contended = Contention()
    goes_on(system, own=1.9, others=0.1)
    assert contended.left_since() == pytest.approx(1.9)
    goes_on(system, own=0.9, others=1.0)
    assert contended.left_since() == pytest.approx(1.0)
