"""The cost model: measured within its budget, interpolated between widths, corrected by real rounds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omnidraft.decoding import measure, processor
from omnidraft.decoding.cost import CostModel, Figure, monotone
from omnidraft.decoding.measure import WIDTHS, measure_costs
from omnidraft.errors import SettingsError
from tests.decoding import toys


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> None:
    """Time as the models below spend it: what is measured depends on no other program."""
    Slow.now = 0.0
    for module, name in ((measure, "perf_counter"), (processor, "perf_counter"), (processor, "thread_time")):
        monkeypatch.setattr(module, name, lambda: Slow.now)
    monkeypatch.setattr(measure, "Watch", lambda: SimpleNamespace(look=lambda: True))


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


def test_widths_in_between_and_beyond_lie_on_the_nearest_line():
    cost = CostModel({1: 1.0, 2: 2.0, 4: 3.0}, 0.1)
    assert cost.pass_seconds(3) == pytest.approx(2.5)
    assert cost.pass_seconds(6) == pytest.approx(4.0)


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


def test_one_interrupted_pass_changes_nothing():
    cost = CostModel({1: 1.0, 2: 1.2}, 0.1)
    cost.observe_pass(1, 50.0)
    assert cost.pass_seconds(1) == 1.0


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


def test_the_curve_never_falls_and_pools_to_the_lower_of_two():
    assert monotone([38.0, 14.0, 15.0], [4, 4, 4]) == [14.0, 14.0, 15.0]
    assert monotone([1.0, 3.1, 2.9, 4.0], [1, 1, 3, 1]) == [1.0, 2.9, 2.9, 4.0]
    cost = CostModel({1: 1.0, 2: 1.9, 3: 3.08, 4: 2.93, 5: 3.97, 6: 3.83}, 0.1)
    curve = [cost.alone(n) for n in range(1, 20)]
    assert curve == sorted(curve)


def test_a_figure_of_one_row_above_those_of_more_is_measured_again_by_plain_rounds():
    cost = CostModel({1: 38.0, 3: 14.0, 5: 15.0}, 0.1)
    cost.observe_pass(1, 10.0, 4)
    assert cost.pass_seconds(1) == pytest.approx(10.0, rel=0.01)
    assert cost.pass_seconds(3) == pytest.approx(14.0, rel=0.01)


def test_a_single_stalled_figure_is_replaced_by_plain_rounds():
    cost = CostModel({1: 180.0}, 0.1)
    cost.observe_pass(1, 14.0, 8)
    assert cost.pass_seconds(1) == pytest.approx(14.0)
    assert cost.pass_seconds(4) < 30.0


def test_rounds_that_contradict_a_figure_replace_it_and_cast_doubt_on_those_never_used():
    cost = CostModel({1: 1.0, 3: 12.0, 5: 12.0, 8: 12.0}, 0.1)
    cost.observe_pass(1, 1.0, 20)
    cost.observe_pass(3, 1.1)
    assert cost.pass_seconds(3) == pytest.approx(1.1, rel=0.02)
    assert cost.pass_seconds(8) < 2.0
    cheap = CostModel({1: 1.0, 4: 1.1}, 0.1)
    for _ in range(12):
        cheap.observe_pass(1, 1.0)
        cheap.observe_pass(4, 2.5)
    assert cheap.pass_seconds(4) == pytest.approx(2.5, rel=0.1)


def test_hopes_only_for_what_no_round_has_used():
    cost = CostModel({1: 1.0, 2: 9.0, 4: 9.0}, 0.1)
    assert cost.hoped(4) == pytest.approx(1.9)
    for _ in range(3):
        cost.observe_pass(4, 9.0)
    assert cost.hoped(4) == pytest.approx(cost.pass_seconds(4))


# what was measured while the machine was busy


class Once(Slow):
    """A model with some passes that take `stall` seconds longer; `ran`: how much of it its thread got."""

    ran = 0.0

    def __init__(self, model, stalls: dict[int, float], asleep: bool = True) -> None:
        super().__init__(model, 0.002, 0.001)
        self._stalls, self._asleep, self._count = stalls, asleep, 0

    def extend(self, ids, rows):
        self._count += 1
        stall = self._stalls.get(self._count, 0.0)
        Slow.now += stall
        Once.ran += 0.0 if self._asleep else stall
        Once.ran += self._base + self._each * rows
        return super().extend(ids, rows)


@pytest.fixture
def thread(monkeypatch) -> None:
    Once.ran = 0.0
    monkeypatch.setattr(processor, "thread_time", lambda: Once.ran)


def test_a_first_pass_a_hundred_times_too_slow_counts_for_nothing():
    cost = measure_costs(Once(toys.target(), {1: 0.3, 2: 0.2}, asleep=False), None, 1.5)
    assert set(cost.passes) == set(WIDTHS)
    assert cost.pass_seconds(1) == pytest.approx(0.003)


@pytest.mark.usefixtures("thread")
@pytest.mark.parametrize("asleep", [True, False])
def test_interrupted_passes_say_nothing_about_the_model(asleep):
    """A third of all passes; without their thread's time they are known at once, else they do not agree."""
    stalls = dict.fromkeys(range(3, 400, 3), 0.05)
    cost = measure_costs(Once(toys.target(), stalls, asleep), None, 10.0)
    for rows in WIDTHS:
        assert cost.alone(rows) == pytest.approx(0.002 + 0.001 * rows)
    assert all(figure.samples >= 2 and figure.spread < 0.2 and figure.date for figure in cost.kept.values())


def test_nothing_is_kept_that_was_measured_while_others_had_the_processors(monkeypatch):
    monkeypatch.setattr(measure, "Watch", lambda: SimpleNamespace(look=lambda: False))
    cost = measure_costs(Slow(toys.target(), 0.002, 0.001), None, 1.0)
    assert cost.pass_seconds(1) == pytest.approx(0.003)
    assert not cost.worth_keeping
    cost.observe_pass(1, 0.003, quiet=False)
    assert not cost.worth_keeping
    cost.observe_pass(1, 0.003, quiet=True)
    assert cost.worth_keeping
    assert set(CostModel.from_dict(cost.as_dict()).passes) == {1}


def test_figures_keep_their_samples_spread_and_date():
    figure = Figure.of([1.0, 1.1, 0.9])
    assert (figure.seconds, figure.samples) == (1.0, 3)
    assert figure.spread == pytest.approx(0.1)
    cost = CostModel({1: 1.0}, 0.1, kept={1: figure})
    assert CostModel.from_dict(cost.as_dict()).kept == {1: figure}
    with pytest.raises(TypeError):
        CostModel.from_dict({"passes": {"1": 0.18}, "step": 0.1, "fixed": 0.0})  # as it was stored once
