"""What a benchmark found, and how it is written: as text, as Markdown, as JSON. Knows no benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingsError
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.files import write_atomically


@dataclass(frozen=True, slots=True)
class Table:
    """rows: as many values each as `head` has names; None stays empty."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Report:
    """values: what programs read, one object or one a line; notes: sentences below the tables."""

    values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def text(report: Report) -> Iterator[str]:
    """Aligned columns for a terminal."""
    for table in report.tables:
        lines = [list(table.head), *(list(map(shown, row)) for row in table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        yield from ("", table.title) if table.title else ("",)
        for line in lines:
            yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    yield from report.notes


def markdown(report: Report) -> Iterator[str]:
    for table in report.tables:
        yield from (f"### {table.title}", "") if table.title else ()
        yield from (f"| {' | '.join(table.head)} |", "|---" * len(table.head) + "|")
        yield from (f"| {' | '.join(map(shown, row))} |" for row in table.rows)
        yield ""
    yield from (f"- {note}" for note in report.notes)


def json_lines(report: Report) -> Iterator[str]:
    """One JSON object a line."""
    for line in [report.values] if isinstance(report.values, Mapping) else report.values:
        yield json.dumps(plain(line))


def write(report: Report, out: Path | None, tables: Path | None) -> None:
    """The numbers, and the tables as Markdown, each where it is wanted."""
    if out:
        values = report.values if isinstance(report.values, Mapping) else {"rows": report.values}
        write_atomically(out, json.dumps(plain(values), indent=1).encode())
    if tables:
        write_atomically(tables, "".join(f"{line}\n" for line in markdown(report)).encode())


def shown(value: Any) -> str:
    """A cell of a table."""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "" if value is None else str(value)


def plain(value: Any) -> Any:
    """As JSON has it: no NaN, and objects of ours as their fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


# The kinds of sampling that benchmarks set side by side: temperatures over the whole distribution, and the defaults. A
# column is a temperature, with nothing filtered out, or DEFAULT: what the app does unless told otherwise.


DEFAULT = "default"
COLUMNS = ("0", "1", DEFAULT)
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
