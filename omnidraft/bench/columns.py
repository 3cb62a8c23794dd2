"""The kinds of sampling that benchmarks set side by side: temperatures over the whole distribution, and the defaults.

A column is a temperature, with nothing filtered out, or DEFAULT: what the app does unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings

DEFAULT = "default"
COLUMNS = "0,1,default"
Column = float | str


def columns(names: Sequence[str]) -> list[Column]:
    """Temperatures and `default`, each one that a sampler takes."""
    try:
        return [column_of(name.strip()) for name in names]
    except ValueError:
        shown = ",".join(names)[:40]
        raise SettingsError(f"--temperature takes numbers and {DEFAULT!r}, not {shown!r}.") from None


def column_of(name: str) -> Column:
    """The column that `name_of` calls so; SettingsError for a temperature that no sampler takes."""
    return DEFAULT if name == DEFAULT else SamplingSettings(temperature=float(name)).temperature


def name_of(column: Column) -> str:
    return column if isinstance(column, str) else f"{column:g}"


def label(column: Column) -> str:
    """What tables say."""
    return "defaults" if column == DEFAULT else f"T={column:g}"


def sampling_of(column: Column, **values: Any) -> SamplingSettings:
    """The column's sampling, with seed and length from `values`."""
    if column == DEFAULT:
        return SamplingSettings(**values)
    return SamplingSettings.unfiltered(temperature=column, **values)
