"""The cost model: measured within its budget, interpolated between widths, corrected by real rounds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from omnidraft.decoding import measure
from omnidraft.decoding.depth import CostModel
from omnidraft.decoding.measure import WIDTHS, measure_costs
from omnidraft.errors import SettingsError
from tests.decoding import toys


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> None:
    """Time as the models below spend it: what is measured depends on no other program."""
    Slow.now = 0.0
    monkeypatch.setattr(measure, "perf_counter", lambda: Slow.now)
    monkeypatch.setattr(measure, "Contention", lambda: SimpleNamespace(quiet_since=lambda: True))


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
    cost = measure_costs(target, drafter, 1.0)
    assert set(cost.passes) == set(WIDTHS)
    for rows in WIDTHS:
        assert cost.passes[rows] == pytest.approx(0.002 + 0.001 * rows)
    assert cost.step == pytest.approx(0.001)
    assert target.tokens == [] == drafter.tokens


def test_a_slow_model_keeps_to_the_budget():
    cost = measure_costs(Slow(toys.target(), 0.3, 0.0), Slow(toys.drafter(), 0.001, 0.0), 0.5)
    assert Slow.now < 1.1  # one pass each for the context and the row may overrun
    assert list(cost.passes) == [1]


def test_a_target_that_cannot_rewind_is_measured_for_single_rows_only():
    assert list(measure_costs(Slow(toys.target(can_rewind=False), 0.001, 0.0), None, 0.2).passes) == [1]


def test_an_unmeasured_width_takes_its_first_real_pass_at_its_word():
    cost = CostModel({1: 1.0}, 0.1)
    cost.observe_pass(5, 1.6)
    assert cost.pass_seconds(5) == pytest.approx(1.6)


def test_a_busier_machine_raises_every_width():
    cost = CostModel({1: 1.0, 2: 1.2, 4: 1.5}, 0.1)
    for _ in range(200):
        cost.observe_pass(1, 2.0)
    assert cost.pass_seconds(1) == pytest.approx(2.0, rel=0.02)
    assert cost.pass_seconds(4) > 2.0


def test_one_interrupted_pass_changes_little_and_a_few_are_forgotten():
    cost = CostModel({1: 1.0, 2: 1.2}, 0.1)
    cost.observe_pass(1, 50.0)
    assert cost.pass_seconds(1) <= 1.06
    cost.observe_pass(2, 50.0)
    assert cost.pass_seconds(2) <= 1.6
    for _ in range(40):
        cost.observe_pass(1, 1.0)
        cost.observe_pass(2, 1.2)
    assert cost.pass_seconds(1) == pytest.approx(1.0, rel=0.01)
    assert cost.pass_seconds(2) == pytest.approx(1.2, rel=0.03)


def test_survives_storage_and_refuses_nonsense():
    cost = CostModel({1: 1.0, 4: 2.0}, 0.1)
    cost.observe_pass(1, 1.4)
    again = CostModel.from_dict(cost.as_dict())
    assert again.pass_seconds(4) == pytest.approx(cost.pass_seconds(4))
    for passes in ({}, {2: 1.0}, {1: 0.0}, {1: float("nan")}):
        with pytest.raises(SettingsError):
            CostModel(passes, 0.1)


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
    cost = measure_costs(Turning(toys.target(), 0.002, 0.003), None, 2.0)
    assert cost.pass_seconds(1) == pytest.approx(0.002)
    for rows in (2, 6, 12):
        assert cost.pass_seconds(rows) == pytest.approx(0.008)
    for _ in range(200):
        cost.observe_pass(4, 0.005)  # what the wide pass itself shows of it
    assert cost.pass_seconds(4) == pytest.approx(0.008)
    assert CostModel.from_dict(cost.as_dict()).pass_seconds(4) == pytest.approx(cost.pass_seconds(4))


def test_what_a_wide_pass_costs_besides_itself_is_learned_from_the_passes_behind_it():
    cost = CostModel({1: 1.0, 4: 1.5}, 0.1)
    for _ in range(100):
        cost.observe_return(1.4)
    assert cost.pass_seconds(4) == pytest.approx(1.9, abs=0.02)
    assert cost.pass_seconds(1) == 1.0
    for _ in range(200):
        cost.observe_return(0.9)  # never below nothing
    assert cost.pass_seconds(4) == 1.5


def test_before_real_rounds_the_curve_never_falls_and_no_pass_costs_much_more_than_two_that_share_its_rows():
    cost = CostModel({1: 1.0, 2: 1.9, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83, 12: 30.0}, 0.1)
    curve = [cost.alone(n) for n in range(1, 20)]
    assert curve == sorted(curve)
    assert curve[2] == pytest.approx(2.93)
    assert curve[11] == pytest.approx(7.66)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # no clock is read
@given(st.dictionaries(st.integers(2, 16), st.floats(0.5, 40.0), max_size=8), st.floats(0.5, 3.0), st.booleans())
@example({2: 1.9, 9: 1.4, 13: 4.6, 15: 5.2}, 2.4, True)  # a capped width behind interpolated ones
def test_no_table_of_a_load_makes_a_curve_that_falls(wider, one, plain):
    cost = CostModel({1: one, **wider}, 0.1)
    if plain:
        cost.observe_pass(1, cost.alone(1), 20)
    curve = [cost.alone(n) for n in range(1, 18)]
    assert curve == sorted(curve)


def test_widths_that_real_rounds_found_dearer_than_a_wider_one_are_believed():
    """A kernel takes eight rows at once and leftovers one by one."""
    cost = CostModel({1: 1.0, 4: 1.5, 6: 3.2, 8: 1.9}, 0.1)
    assert cost.pass_seconds(6) == pytest.approx(1.9)
    for _ in range(20):
        cost.observe_pass(1, 1.0)
        cost.observe_pass(6, 3.2)
    assert cost.pass_seconds(6) == pytest.approx(3.2, rel=0.1)
    assert cost.pass_seconds(8) == pytest.approx(1.9)


def test_each_number_of_threads_has_figures_of_its_own_and_begins_like_the_nearest():
    cost = CostModel({1: 1.0, 4: 2.0}, 0.1)
    cost.threads = 1
    assert cost.pass_seconds(4) == pytest.approx(2.0)
    cost.observe_pass(1, 0.5)
    for _ in range(100):
        cost.observe_pass(4, 1.8)
    assert cost.pass_seconds(4) == pytest.approx(1.8, rel=0.02)
    cost.threads = 0
    assert cost.passes == {1: 1.0, 4: 2.0}


def test_wide_passes_long_behind_a_plain_one_tell_of_a_slower_machine():
    cost = CostModel({1: 1.0, 4: 1.5}, 0.1)
    for _ in range(150):
        cost.observe_pass(4, 3.0)
    assert cost.pass_seconds(4) == pytest.approx(3.0, rel=0.02)
    assert cost.pass_seconds(1) > 1.2


def test_rounds_that_contradict_a_figure_replace_it_and_cast_doubt_on_those_never_used():
    cost = CostModel({1: 1.0, 3: 12.0, 5: 12.0, 8: 12.0}, 0.1)
    cost.observe_pass(1, 1.0, 20)
    cost.observe_pass(3, 1.1)
    assert cost.pass_seconds(3) == pytest.approx(1.1, rel=0.02)
    assert cost.pass_seconds(8) < 2.0
    cheap = CostModel({1: 1.0, 4: 1.1}, 0.1)
    for _ in range(40):
        cheap.observe_pass(1, 1.0)
        cheap.observe_pass(4, 2.5)
    assert cheap.pass_seconds(4) == pytest.approx(2.5, rel=0.1)


def test_rounds_that_contradict_the_load_from_above_cast_doubt_too_and_a_changed_machine_voids_them():
    cost = CostModel({1: 1.0, 3: 1.0, 8: 1.1}, 0.1)
    for _ in range(4):
        cost.observe_pass(1, 1.0)
        cost.observe_pass(3, 3.0)
    assert cost.pass_seconds(8) >= cost.pass_seconds(3) > 1.5
    again = CostModel({1: 1.0, 3: 2.4, 8: 1.9}, 0.1)
    for _ in range(20):
        again.observe_pass(1, 1.0)
        again.observe_pass(3, 2.4)
    assert again.pass_seconds(3) == pytest.approx(2.4, rel=0.05)
    again.now.doubt()
    assert again.pass_seconds(3) == pytest.approx(1.9, rel=0.01)


def test_a_width_counts_as_used_once_some_rounds_had_as_many_rows():
    cost = CostModel({1: 1.0, 2: 9.0, 4: 9.0}, 0.1)
    cost.observe_pass(4, 9.0, 2)
    assert not cost.now.is_used(2)
    cost.observe_pass(2, 9.0)
    assert cost.now.is_used(2)
    assert not cost.now.is_used(4)


# what was measured while the machine was busy


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
    cost = measure_costs(Once(toys.target(), {1: 0.3, 2: 0.2}), None, 1.5)
    assert set(cost.passes) == set(WIDTHS)
    assert cost.pass_seconds(1) == pytest.approx(0.003)


def test_interrupted_passes_say_nothing_about_the_model():
    """A third of all passes: they do not agree with the others."""
    stalls = dict.fromkeys(range(3, 400, 3), 0.05)
    cost = measure_costs(Once(toys.target(), stalls), None, 10.0)
    for rows in WIDTHS:
        assert cost.alone(rows) == pytest.approx(0.002 + 0.001 * rows)


def test_nothing_is_kept_that_was_measured_while_others_had_the_processors(monkeypatch):
    monkeypatch.setattr(measure, "Contention", lambda: SimpleNamespace(quiet_since=lambda: False))
    cost = measure_costs(Slow(toys.target(), 0.002, 0.001), None, 1.0)
    assert cost.pass_seconds(1) == pytest.approx(0.003)
    assert cost.kept is None
    cost.keep()
    assert CostModel.from_dict(cost.kept).passes == pytest.approx(cost.passes)
