"""What each benchmark can be told: a frozen plan whose fields are the arguments of its command. No models here.

The command line makes an argument of every field (`--max-tokens` of `max_tokens`), the first line of a plan's docstring
is its help, and a plan that exists is valid. What a value means for a run is said in the benchmark's own module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omnidraft.bench.columns import COLUMNS
from omnidraft.bench.sources import SOURCES
from omnidraft.lab.prompts import TASKS
from omnidraft.settings.fields import Rule, check, choice, integer, text

A, B, A2 = "tiny-target-a", "tiny-target-b", "tiny-target-a2"
LOSSES = ("ngram", "dm", "hybrid", "projected")  # the paper's, and ours
EDIT = "edit"  # "write this text again"
ALL = "all"  # the bundled tasks in turn
PEERS = ("server", "ours")
MANY = 100_000
_TASKS = f"of {', '.join(TASKS)}, {EDIT} (a text again), {ALL} (tasks in turn), or files of prompts"
_COLUMNS = "numbers, and default for the sampling of the app"


def words(default: str, help: str) -> Any:
    """A field of texts, written with commas or blanks between them."""
    return field(default=tuple(default.split(",")), metadata={"rule": Rule("texts", help, high=99), "help": help})


def _count(default: int, help: str, least: int = 1) -> Any:
    return integer(default, least, MANY, help)


def _tasks(default: tuple[str, ...] = TASKS) -> Any:
    return words(",".join(default), _TASKS)


def _drafter() -> Any:
    return text(None, "the bundled one unless told otherwise")


@dataclass(frozen=True)
class Plan:
    """A plan that exists is valid."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class OfPair(Plan):
    """A plan that says how a pair of models is loaded."""

    drafter: str | None = _drafter()
    threads: int = integer(0, 0, 1024, "0: as the app chooses")


@dataclass(frozen=True)
class Speed(OfPair):
    """methods against plain decoding, in turns"""

    target: tuple[str, ...] = words(f"{A},{B}", "models")
    tasks: tuple[str, ...] = _tasks()
    methods: tuple[str, ...] = words("plain,lookup,fixed:4,adaptive", "ways of decoding")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)
    prompts: int = _count(6, "per task")
    repeats: int = _count(1, "of everything; of each prompt the one with the median speedup counts")
    max_tokens: int = _count(64, "longest answer")
    seed: int = _count(0, "of the first prompt", least=0)
    workers: str | None = text(None, "host:port of workers that hold layers of the target, with commas between")
    split: str | None = text(None, "shares of the layers with commas, this machine first; left empty: by memory")
    exact: str = choice("bits", ("bits", "fast"), "as the setting of that name")


@dataclass(frozen=True)
class Learn(OfPair):
    """what the drafter gains by learning from a stream of answers"""

    target: tuple[str, ...] = words(f"{A},{B}", "models")
    tasks: tuple[str, ...] = _tasks()
    loss: tuple[str, ...] = words("projected", f"of {', '.join(LOSSES)}")
    seeds: int = integer(3, 1, 99, "each with prompts and an order of its own")
    train_prompts: int = _count(300, "answers to learn from")
    train_tokens: int = _count(128, "longest answer to learn from")
    interval: int = _count(8, "answers of an update")
    test_prompts: int = _count(20, "other prompts, asked when learning is over")
    test_tokens: int = _count(64, "longest answer of a test")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)


@dataclass(frozen=True)
class Real(OfPair):
    """public prompts, fetched over the network: acceptance, learning and speed"""

    target: tuple[str, ...] = words(A, "models")
    tasks: tuple[str, ...] = words(",".join(SOURCES), f"of {', '.join(SOURCES)}")
    loss: tuple[str, ...] = words("dm,hybrid,projected", f"of {', '.join(LOSSES)}")
    seeds: int = integer(3, 1, 99, "of what is learned from, and in which order")
    train_prompts: int = _count(1000, "answers to learn from")
    train_tokens: int = _count(256, "longest answer to learn from")
    test_prompts: int = _count(50, "other prompts")
    test_tokens: int = _count(128, "longest answer of a test")
    timed_prompts: int = _count(20, "of a timed cell")
    rows: str = text("https://datasets-server.huggingface.co", "where rows of data sets are asked for")


@dataclass(frozen=True)
class Peers(OfPair):
    """other programs and ours on the same weights and prompts, each against its own plain decoding"""

    target: str = text(A, "a model")
    helper: str = text(A2, "a small model of the target's vocabulary for draft-simple, or none")
    peers: tuple[str, ...] = words(",".join(PEERS), f"of {', '.join(PEERS)}")
    tasks: tuple[str, ...] = _tasks((*TASKS, EDIT))
    temperature: tuple[str, ...] = words("0,default,1", _COLUMNS)
    prompts: int = _count(8, "per task")
    max_tokens: int = _count(64, "longest answer", least=2)
    seed: int = _count(0, "of the first prompt", least=0)
    server: str | None = text(None, "llama.cpp's llama-server; left empty: peers/llama-server in the cache folder")
