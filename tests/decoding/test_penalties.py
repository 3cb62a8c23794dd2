"""Presence and frequency penalties: the formula, what they look at, and that drafting changes no text."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.decoding import sampling
from omnidraft.decoding.events import Token
from omnidraft.decoding.sampling import Penalties, looked_at
from omnidraft.settings.config import SamplingSettings
from tests.decoding import toys
from tests.decoding.test_exactness import answer

STRONG = {"presence_penalty": 0.9, "frequency_penalty": 0.7}


def test_the_formula_is_openais_and_looks_at_the_answer_alone():
    settings = SamplingSettings(presence_penalty=0.5, frequency_penalty=-0.25)
    row = np.zeros(6, np.float32)
    assert Penalties(settings, before=2).apply(row, [0, 1, 2, 3, 3, 2, 2])
    np.testing.assert_allclose(row, [0, 0, -0.5 + 3 * 0.25, -0.5 + 2 * 0.25, 0, 0])


def test_nothing_changes_where_nothing_was_said_or_asked():
    row = np.arange(4, dtype=np.float32)
    assert not Penalties(SamplingSettings(**STRONG), before=2).apply(row, [0, 1])
    assert not Penalties(SamplingSettings(), before=0).apply(row, [0, 1])
    np.testing.assert_array_equal(row, np.arange(4))


def test_they_come_on_top_of_the_repetition_penalty(monkeypatch):
    monkeypatch.setattr(sampling, "LAST", 3)
    settings = SamplingSettings(repeat_penalty=2.0, presence_penalty=1.0)
    row = np.array([4.0, -4.0, 4.0, 4.0], np.float32)
    Penalties(settings, before=3).apply(row, [3, 0, 1, 2])
    np.testing.assert_allclose(row, [2.0, -8.0, 2.0 - 1.0, 4.0])


@pytest.mark.parametrize(("last", "written", "expected"), [
    (0, 0, ([], 0)), (2, 0, ([8, 9], 2)), (2, 3, ([7, 8, 9], 0)), (4, 1, ([6, 7, 8, 9], 3)),
    (99, 2, ([5, 6, 7, 8, 9], 3)),
])  # fmt: skip
def test_an_answer_that_goes_on_is_looked_at_from_its_beginning(last, written, expected, monkeypatch):
    monkeypatch.setattr(sampling, "LAST", last)
    assert looked_at([5, 6, 7, 8, 9], written) == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_cut_and_gone_on_with_is_the_whole_one(temperature):
    sampling = SamplingSettings.unfiltered(max_tokens=30, temperature=temperature, **STRONG)
    whole = answer(toys.target(), sampling, 3)
    begun = list(whole[:11])
    rest = toys.decoded(toys.target(), [*toys.PROMPT, *begun], sampling, 3, written=len(begun))
    said = [*begun, *(e.id for e in rest if isinstance(e, Token))]
    assert said[: len(whole)] == list(whole)
