"""What an experiment found: told as tables and as JSON, and kept cell by cell, to go on where it was interrupted.

A cell is what is measured together and kept together; how far a run has come is which cells there are. Knows no
experiment.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.files import reason, write_atomically

Columns = Mapping[str, str | Callable[[Any], Any]]  # by name: the key of a value in what was found, or how to tell it


@dataclass(frozen=True, slots=True)
class Table:
    """rows: as many values each as `head` has names; None stays empty."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, title: str, found: Sequence[Any], columns: Columns) -> Table:
        rows = [[one.get(of) if isinstance(of, str) else of(one) for of in columns.values()] for one in found]
        return cls(title, list(columns), rows)


@dataclass(frozen=True, slots=True)
class Report:
    """values: what programs read, one object or one a line; notes: sentences below the tables."""

    values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


def as_text(report: Report) -> Iterator[str]:
    """Aligned columns for a terminal."""
    for table in report.tables:
        lines = [list(table.head), *(list(map(shown, row)) for row in table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        yield from ("", table.title) if table.title else ("",)
        for line in lines:
            yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    yield from report.notes


def json_lines(report: Report) -> Iterator[str]:
    """One JSON object a line."""
    for line in [report.values] if isinstance(report.values, Mapping) else report.values:
        yield json.dumps(plain(line))


def write(report: Report, out: Path) -> None:
    """The numbers."""
    values = report.values if isinstance(report.values, Mapping) else {"rows": report.values}
    write_atomically(out, json.dumps(plain(values), indent=1).encode())


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


class Cells:
    """Finished cells, a JSON file each below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> Path:
        """A file of a cell's own; its folder is there."""
        path = self.folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be made: {reason(error)}.") from error
        return path

    def get(self, name: str, decides: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """The cell's value as JSON has it, made if it is missing. decides: all that it depends on; SettingsError if
        what is there was made with other values."""
        path, asked = self.place(f"{name}.json"), json.loads(json.dumps(plain(decides)))
        if not path.is_file():
            write_atomically(path, json.dumps({"decides": asked, "value": plain(make())}).encode())
        try:
            kept = json.loads(path.read_bytes())
            before, value = kept["decides"], kept["value"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{path} is damaged; delete it and run again.") from error
        if differ := [one for one in asked if before.get(one) != asked[one]]:
            raise SettingsError(f"{path} was made with other {', '.join(differ)}; name another --out file.")
        return value


def digest(path: Path) -> str:
    """Of a file's bytes, or of the names and sizes of a folder's."""
    if path.is_dir():
        listed = sorted((file.name, file.stat().st_size) for file in path.iterdir())
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16]
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
