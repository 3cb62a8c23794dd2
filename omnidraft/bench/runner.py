"""How every benchmark runs, in turns, cell by cell, and on from where it was interrupted; what it can be told, and how
what it found is written: as text, as JSON. Knows no benchmark.

A cell is what is measured together and kept together; how far a run has come is which cells there are.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from omnidraft.errors import SettingsError, StorageError
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.config import SamplingSettings
from omnidraft.settings.fields import Rule, check, integer, text
from omnidraft.storage.files import reason, write_atomically
from omnidraft.storage.paths import DataHome


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


# What each benchmark can be told: a frozen plan whose fields are the arguments of its command. No models here. The
# command line makes an argument of every field (`--max-tokens` of `max_tokens`), the first line of a plan's docstring
# is its help, and a plan that exists is valid. What a value means for a run is said in the benchmark's own module.


LOSSES = ("hybrid", "projected")  # the paper's, and ours
EDIT = "edit"  # "write this text again"
ALL = "all"  # the bundled tasks in turn
PEERS = ("server", "ours")
MANY = 100_000
_TASKS = f"of {', '.join(TASKS)}, {EDIT} (a text again), {ALL} (tasks in turn), or files of prompts"
_MODELS = "models, else what the app starts with"
_COLUMNS = "numbers, and default for the sampling of the app"


def words(default: tuple[str, ...], help: str) -> Any:
    """A field of texts, written with commas or blanks between them."""
    return field(default=default, metadata={"rule": Rule("texts", help, high=99), "help": help})


def _count(default: int, help: str, least: int = 1) -> Any:
    return integer(default, least, MANY, help)


@dataclass(frozen=True)
class Plan:
    """A plan that exists is valid. It says how a pair of models is loaded."""

    drafter: str | None = text(None, "the bundled one unless told otherwise")
    threads: int = integer(0, 0, 1024, "0: as the app chooses")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Speed(Plan):
    """methods against plain decoding, in turns"""

    target: tuple[str, ...] = words((), _MODELS)
    tasks: tuple[str, ...] = words(TASKS, f"of {', '.join(TASKS)}, or files of prompts")
    methods: tuple[str, ...] = words(("plain", "lookup", "fixed:4", "adaptive"), "ways of decoding")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)
    prompts: int = _count(6, "per task")
    max_tokens: int = _count(64, "longest answer")
    seed: int = _count(0, "of the first prompt", least=0)
    workers: str | None = text(None, "host:port of workers that hold layers of the target, with commas between")
    split: str | None = text(None, "shares of the layers with commas, this machine first; left empty: by memory")


@dataclass(frozen=True)
class Passes(Plan):
    """what passes of one row and of several take, beside llama.cpp's and what memory allows"""

    target: tuple[str, ...] = words((), _MODELS)
    context: int = _count(200, "tokens behind which rows are computed")
    rounds: int = _count(5, "of all widths, in turns")


@dataclass(frozen=True)
class Learn(Plan):
    """what the drafter gains by learning from a stream of answers"""

    target: tuple[str, ...] = words((), _MODELS)
    tasks: tuple[str, ...] = words(TASKS, _TASKS)
    loss: tuple[str, ...] = words(("projected",), f"of {', '.join(LOSSES)}")
    capacity: tuple[str, ...] = words((), "more sizes of the n-gram cache, in entries, each under both policies")
    seeds: int = integer(3, 1, 99, "each with prompts and an order of its own")
    train_prompts: int = _count(300, "answers to learn from")
    train_tokens: int = _count(128, "longest answer to learn from")
    interval: int = _count(16, "answers of an update")
    test_prompts: int = _count(20, "other prompts, asked when learning is over")
    test_tokens: int = _count(64, "longest answer of a test")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)


@dataclass(frozen=True)
class Peers(Plan):
    """other programs and ours on the same weights and prompts, each against its own plain decoding"""

    target: str | None = text(None, "a model, else what the app starts with")
    peers: tuple[str, ...] = words(PEERS, f"of {', '.join(PEERS)}")
    tasks: tuple[str, ...] = words((*TASKS, EDIT), _TASKS)
    temperature: tuple[str, ...] = words(("0", "default", "1"), _COLUMNS)
    prompts: int = _count(8, "per task")
    max_tokens: int = _count(64, "longest answer", least=2)
    seed: int = _count(0, "of the first prompt", least=0)
    server: str | None = text(None, "llama.cpp's llama-server; left empty: peers/llama-server in the cache folder")


W = TypeVar("W", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R")


def in_turns(ways: Sequence[W], items: Sequence[T], ask: Callable[[W, int, T], R]) -> dict[W, list[R]]:
    """What `ask` (way, number of the item, item) makes of every item in every way, each way first equally often: what
    else the machine does meets all of them alike."""
    found: dict[W, list[R]] = {way: [] for way in ways}
    for number, item in enumerate(items):
        turn = number % len(ways)
        for way in [*ways[turn:], *ways[:turn]]:
            found[way].append(ask(way, number, item))
    return found


def same_ids(plain: Sequence[Any], found: Sequence[Any]) -> int:
    """How many answers are the same tokens."""
    return sum(one.ids == other.ids for one, other in zip(plain, found, strict=True))


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
    told: Callable[[str], None]


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
