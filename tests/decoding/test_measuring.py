"""What passes take is measured within a budget, and interruptions say nothing about a model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omnidraft.decoding import measuring
from omnidraft.decoding.measuring import WIDTHS, measure_pace
from omnidraft.decoding.pace import Pace
from omnidraft.engine import Engine
from tests.decoding import toys


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> None:
    """Time as the models below spend it: what is measured depends on no other program."""
    Slow.now = 0.0
    monkeypatch.setattr(measuring, "perf_counter", lambda: Slow.now)
    monkeypatch.setattr(measuring, "Contention", lambda: SimpleNamespace(quiet_since=lambda: True))


class Slow:
    """A toy model whose passes take `base` + `each` * rows seconds of the clock."""

    now = 0.0

    def __init__(self, model, base: float, each: float) -> None:
        self._model, self._base, self._each = model, base, each

    def __getattr__(self, name):
        return getattr(self._model, name)

    def extend(self, ids, rows):
        Slow.now += self._base + self._each * rows
        return self._model.extend(ids, rows)


def test_measures_every_width_of_a_quick_model_and_leaves_the_caches_empty():
    target, drafter = Slow(toys.target(), 0.002, 0.001), Slow(toys.drafter(), 0.001, 0.0)
    pace = measure_pace(target, drafter, 1.0)
    assert set(pace.passes.figures) == set(WIDTHS)
    for rows in WIDTHS:
        assert pace.passes.seconds(rows) == pytest.approx(0.002 + 0.001 * rows)
    assert pace.step == pytest.approx(0.001)
    assert target.tokens == [] == drafter.tokens


def test_a_slow_model_keeps_to_the_budget():
    pace = measure_pace(Slow(toys.target(), 0.3, 0.0), Slow(toys.drafter(), 0.001, 0.0), 0.5)
    assert Slow.now < 1.1  # one pass each for the context and the row may overrun
    assert list(pace.passes.figures) == [1]


def test_the_first_answer_waits_half_a_second_for_it():
    """Of a model with passes like those of half a billion parameters."""
    known = Engine(Slow(toys.target(), 0.02, 0.005), None).measured()
    assert Slow.now < 0.6
    assert known.passes.seconds(8) == pytest.approx(0.06)


def test_a_target_that_cannot_rewind_is_measured_for_single_rows_only():
    assert list(measure_pace(Slow(toys.target(can_rewind=False), 0.001, 0.0), None, 0.2).passes.figures) == [1]


class Turning(Slow):
    """A model that takes `turn` seconds longer whenever a pass has another width than the one before."""

    def __init__(self, model, base: float, turn: float) -> None:
        super().__init__(model, base, 0.0)
        self._turn, self._last = turn, 1

    def extend(self, ids, rows):
        if rows != self._last:
            Slow.now += self._turn
        self._last = rows
        return super().extend(ids, rows)


def test_a_wide_pass_costs_what_turning_to_it_and_back_takes():
    pace = measure_pace(Turning(toys.target(), 0.002, 0.003), None, 2.0)
    assert pace.plain_seconds == pytest.approx(0.002)
    for rows in (2, 6, 12):
        assert pace.extra(rows) == pytest.approx(0.006)
    for _ in range(200):
        pace.passes.observe(4, 0.005)  # what the wide pass itself shows of it
    assert pace.extra(4) == pytest.approx(0.006)
    assert Pace.from_dict(pace.as_dict()).extra(4) == pytest.approx(pace.extra(4))


class Once(Slow):
    """A model with some passes that take `stall` seconds longer."""

    def __init__(self, model, stalls: dict[int, float]) -> None:
        super().__init__(model, 0.002, 0.001)
        self._stalls, self._count = stalls, 0

    def extend(self, ids, rows):
        self._count += 1
        Slow.now += self._stalls.get(self._count, 0.0) + self._base + self._each * rows
        return self._model.extend(ids, rows)


def test_a_first_pass_a_hundred_times_too_slow_counts_for_nothing():
    pace = measure_pace(Once(toys.target(), {1: 0.3, 2: 0.2}), None, 1.5)
    assert set(pace.passes.figures) == set(WIDTHS)
    assert pace.plain_seconds == pytest.approx(0.003)


def test_interrupted_passes_say_nothing_about_the_model():
    """A third of all passes: they do not agree with the others."""
    stalls = dict.fromkeys(range(3, 400, 3), 0.05)
    pace = measure_pace(Once(toys.target(), stalls), None, 10.0)
    for rows in WIDTHS:
        assert pace.passes.seconds(rows) == pytest.approx(0.002 + 0.001 * rows)


def test_nothing_is_kept_that_was_measured_while_others_had_the_processors(monkeypatch):
    monkeypatch.setattr(measuring, "Contention", lambda: SimpleNamespace(quiet_since=lambda: False))
    found = measure_pace(Slow(toys.target(), 0.002, 0.001), None, 1.0)
    assert found.plain_seconds == pytest.approx(0.003)
    assert found.stored is None
    found.keep()
    assert found.stored is not None
