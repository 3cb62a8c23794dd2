"""How every benchmark runs: in turns, cell by cell, and on from where it was interrupted. Knows no benchmark.

A cell is what is measured together and kept together; how far a run has come is which cells there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from omnidraft.bench.plans import Plan
from omnidraft.bench.report import plain
from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.files import reason, write_atomically
from omnidraft.storage.paths import DataHome

W = TypeVar("W", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")
Told = Callable[[str], None]


def in_turns(ways: Sequence[W], items: Sequence[T], ask: Callable[[W, int, T], R]) -> dict[W, list[R]]:
    """What `ask` (way, number of the item, item) makes of every item in every way, each way first equally often: what
    else the machine does meets all of them alike."""
    found: dict[W, list[R]] = {way: [] for way in ways}
    for number, item in enumerate(items):
        turn = number % len(ways)
        for way in [*ways[turn:], *ways[:turn]]:
            found[way].append(ask(way, number, item))
    return found


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


@dataclass(frozen=True, slots=True)
class Work:
    """What a benchmark is given besides its plan. told: hears how it goes on."""

    home: DataHome
    cells: Cells
    told: Told


def decides(plan: Plan, but: Collection[str], *models: Path | None, **more: Any) -> dict[str, Any]:
    """What a cell depends on: the plan's values except those named, the models' contents, and `more`."""
    values = {name: value for name, value in asdict(plan).items() if name not in {*but, "target", "drafter"}}
    return values | {"models": {path.stem: digest(path) for path in models if path is not None}} | more


def digest(path: Path) -> str:
    """Of a file's bytes, or of the names and sizes of a folder's."""
    if path.is_dir():
        listed = sorted((file.name, file.stat().st_size) for file in path.iterdir())
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:16]
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
