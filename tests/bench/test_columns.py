"""The columns of benchmark tables: temperatures of the whole distribution, and what the app does by itself."""

from __future__ import annotations

import pytest

from omnidraft.bench.columns import COLUMNS, columns, label, name_of, sampling_of
from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings


def test_the_usual_columns_are_two_temperatures_and_the_defaults():
    found = columns(COLUMNS.split(","))
    assert [label(column) for column in found] == ["T=0", "T=1", "defaults"]
    assert columns(list(map(name_of, found))) == found
    zero, one, default = (sampling_of(column, seed=3, max_tokens=5) for column in found)
    assert default == SamplingSettings(seed=3, max_tokens=5)
    for sampling, temperature in ((zero, 0.0), (one, 1.0)):
        assert sampling == SamplingSettings.unfiltered(temperature=temperature, seed=3, max_tokens=5)


@pytest.mark.parametrize("text", ["", "x", "0,nan", "0,-1", "defaults", "0,,1"])
def test_what_is_no_column_is_refused_in_a_sentence(text):
    with pytest.raises(SettingsError):
        columns(text.split(","))
