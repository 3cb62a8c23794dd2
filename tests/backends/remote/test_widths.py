"""Passes are filled up to a few widths only where another width costs more than a row."""

from __future__ import annotations

import pytest

from omnidraft.backends.remote.target_process import FEW, Widths


def settled(change: float, row: float) -> Widths:
    """On a machine where a pass takes a row's time for each, and `change` more when it is wider or narrower."""
    last = [0]

    def seconds_of(rows: int) -> float:
        changed, last[0] = rows != last[0], rows
        return 0.1 + row * rows + (change if changed else 0.0)

    widths = Widths()
    widths.settle(seconds_of)
    return widths


def test_what_costs_more_decides():
    slow = settled(change=0.05, row=0.001)
    assert slow.filling
    assert slow.changing == pytest.approx(0.05)
    assert slow.row == pytest.approx(0.001)
    assert not settled(change=0.0, row=0.001).filling
    assert not settled(change=0.01, row=0.02).filling


def test_filled_passes_have_few_widths_and_single_rows_stay_single():
    widths = settled(change=0.05, row=0.001)
    found = {rows + widths.missing(rows) for rows in range(1, 18)}
    assert found == set(FEW)
    assert widths.missing(1) == 0
    assert widths.missing(18) == 0
    assert all(settled(0.0, 0.01).missing(rows) == 0 for rows in range(1, 30))
