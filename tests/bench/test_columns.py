"""The columns of benchmark tables: temperatures of the whole distribution, and what the app does by itself."""

from __future__ import annotations

import pytest

from omnidraft.bench.columns import columns
from omnidraft.errors import SettingsError


@pytest.mark.parametrize("text", ["", "x", "0,nan", "0,-1", "defaults", "0,,1"])
def test_what_is_no_column_is_refused_in_a_sentence(text):
    with pytest.raises(SettingsError):
        columns(text.split(","))
