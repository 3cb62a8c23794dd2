"""What each benchmark can be told, and what it is given besides. Knows no benchmark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omnidraft.lab.drift import BUNDLED, MIXED
from omnidraft.lab.experiment import COLUMNS
from omnidraft.lab.prompts import ALL, EDIT, TASKS
from omnidraft.lab.results import Cells, digest
from omnidraft.settings.fields import check, choice, integer, switch, text, texts
from omnidraft.storage.paths import DataHome

# What each benchmark can be told: a frozen plan whose fields are the arguments of its command. No models here. The
# command line makes an argument of every field (`--max-tokens` of `max_tokens`), the first line of a plan's docstring
# is its help, and a plan that exists is valid. What a value means for a run is said in the benchmark's own module.


LOSSES = ("hybrid", "projected")  # the paper's, and ours
PEERS = ("server", "ours")
MANY = 100_000
_TASKS = f"of {', '.join(TASKS)}, {EDIT} (a text again), {ALL} (tasks in turn), or files of prompts"
_MODELS = "models, else what the app starts with"
_COLUMNS = "numbers, and default for the sampling of the app"


def words(default: tuple[str, ...], help: str) -> Any:
    """A field of texts, written with commas or blanks between them."""
    return texts(help, 99, default)


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
    capacity: tuple[str, ...] = words((), "sizes of an n-gram cache of learned entries alone, each under lru and lfu")
    seeds: int = integer(3, 1, 99, "each with prompts and an order of its own")
    train_prompts: int = _count(300, "answers to learn from")
    train_tokens: int = _count(128, "longest answer to learn from")
    interval: int = _count(16, "answers of an update")
    test_prompts: int = _count(20, "other prompts, asked when learning is over")
    test_tokens: int = _count(64, "longest answer of a test")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)


@dataclass(frozen=True)
class Drift(Plan):
    """acceptance and speed while tasks or targets change"""

    schedule: str = choice("", tuple(BUNDLED), f"what changes: {', '.join(BUNDLED)}")
    target: tuple[str, ...] = words((), "models in place of the schedule's, in the order they appear there")
    prompts: int | None = integer(None, 1, MANY, "prompts per segment, else what the schedule says")
    task: str | None = text(None, f"ask this in every segment: {', '.join(TASKS)}, {MIXED}, or a file of prompts")
    learn: bool = switch(False, "train the drafter on the answers as the run goes on")
    max_tokens: int = _count(64, "longest answer")


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


@dataclass(frozen=True, slots=True)
class Work:
    """What a benchmark is given besides its plan. told: hears how it goes on; found: what is found before a report is
    due, and that in words."""

    home: DataHome
    cells: Cells
    told: Callable[[str], None]
    found: Callable[[Any, str], None] = lambda value, words: None


def decides(plan: Plan, but: Collection[str], *models: Path | None, **more: Any) -> dict[str, Any]:
    """What a cell depends on: the plan's values except those named, the models' contents, and `more`."""
    values = {name: value for name, value in asdict(plan).items() if name not in {*but, "target", "drafter"}}
    return values | {"models": {path.stem: digest(path) for path in models if path is not None}} | more
