"""What each benchmark can be told: a frozen plan whose fields are the arguments of its command. No models here.

The command line makes an argument of every field (`--max-tokens` of `max_tokens`), the first line of a plan's docstring
is its help, and a plan that exists is valid. What a value means for a run is said in the benchmark's own module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omnidraft.bench.columns import COLUMNS
from omnidraft.bench.published import SOURCES, TARGETS
from omnidraft.lab.prompts import TASKS
from omnidraft.lab.topics import TOPICS
from omnidraft.settings.fields import Rule, check, choice, integer, switch, text

A, B, A2 = "tiny-target-a", "tiny-target-b", "tiny-target-a2"
REGIMES = ("bundled", "0.1b-Q8_0", "0.1b-F32", "0.5b-F32", "0.5b-F16", "0.5b-Q8_0", "0.5b-Q4_0", "0.5b-Q4_K_M",
           "0.1b-folder", "0.5b-folder")  # fmt: skip
LOSSES = ("ngram", "dm", "dm_nll", "hybrid", "both_kl", "projected")  # worst first, as in the paper; ours
METHODS = ("dm", "hybrid", "projected")  # the paper's, and ours
EDIT = "edit"  # "write this text again"
DRAFTERS = ("68m", "160m")
PEERS = ("server", "transformers", "alone", "gguf", "folder")
MANY = 100_000
_REGIME = f"what the target is enlarged to, of {', '.join(REGIMES)}"
_TASKS = f"of {', '.join(TASKS)}, or files of prompts"
_COLUMNS = "numbers, and default for the sampling of the app"
_SHAPE = "what the drafter is enlarged to; own: nothing; left empty: what fits the target"


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
class Overhead(Plan):
    """time spent outside the models at a vocabulary of 128,256"""

    tokens: int = _count(400, "of an answer", least=8)


@dataclass(frozen=True)
class Speed(OfPair):
    """methods against plain decoding, in turns"""

    target: tuple[str, ...] = words(f"{A},{B}", "models")
    drafter_shape: str | None = text(None, _SHAPE)
    regimes: tuple[str, ...] = words("bundled", _REGIME)
    tasks: tuple[str, ...] = _tasks()
    methods: tuple[str, ...] = words("plain,lookup,fixed:4,gamma:0.3,adaptive", "ways of decoding")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)
    prompts: int = _count(6, "per task")
    repeats: int = _count(1, "of everything; of each prompt the one with the median speedup counts")
    max_tokens: int = _count(64, "longest answer")
    seed: int = _count(0, "of the first prompt", least=0)
    workers: str | None = text(None, "host:port of workers that hold layers of the target, with commas between")
    split: str | None = text(None, "shares of the layers with commas, this machine first; left empty: by memory")
    exact: str = choice("bits", ("bits", "fast"), "as the setting of that name")


@dataclass(frozen=True)
class Load(Plan):
    """tokens per second beside busy programs, threads as the app chooses against every fixed number"""

    target: str = text(A, "a model")
    drafter: str | None = _drafter()
    regimes: tuple[str, ...] = words("0.1b-Q8_0,0.1b-F32", _REGIME)
    methods: tuple[str, ...] = words("plain,adaptive", "ways of decoding")
    task: str = text("math", _TASKS)
    prompts: int = _count(6, "each answered with every number of threads beside every load")
    max_tokens: int = _count(48, "longest answer")
    quick: bool = switch(False, "two prompts and short answers")


@dataclass(frozen=True)
class Idle(OfPair):
    """what learning costs the one who waits: pauses, generation beside it"""

    target: str = text(A, "a model")
    regime: str = text("0.5b-Q8_0", "the pair that generates")
    pairs: int = _count(12, "answers with and without learning")
    max_tokens: int = _count(48, "longest answer")


@dataclass(frozen=True)
class FirstSession(OfPair):
    """a new user's first answers, updates included, against plain decoding"""

    target: str | None = text(None, "the bundled one unless told otherwise")
    topic: str = text("math", f"a file of prompts, or of {', '.join(TOPICS)}")
    prompts: int = _count(40, "answers while the drafter learns")
    after: int = _count(20, "answers behind that")
    seed: int = _count(0, "of the first prompt", least=0)


@dataclass(frozen=True)
class Learn(OfPair):
    """what the drafter gains by learning from a stream of answers"""

    target: tuple[str, ...] = words(f"{A},{B}", "models")
    tasks: tuple[str, ...] = _tasks()
    loss: tuple[str, ...] = words("projected", f"of {', '.join(LOSSES)}")
    seeds: int = integer(3, 1, 99, "each with prompts and an order of its own")
    drafter_shape: str | None = text(None, f"of {', '.join(DRAFTERS)}, to which it is enlarged before it learns")
    train_prompts: int = _count(300, "answers to learn from")
    train_tokens: int = _count(128, "longest answer to learn from")
    interval: int = _count(8, "answers of an update")
    joined: bool = switch(False, "learn from long answers: several, one behind the other, up to the longest")
    test_prompts: int = _count(20, "other prompts, asked when learning is over")
    test_tokens: int = _count(64, "longest answer of a test")
    temperature: tuple[str, ...] = words(COLUMNS, _COLUMNS)
    sequence: bool = switch(False, "learn the tasks one after the other, too")


@dataclass(frozen=True)
class Real(OfPair):
    """the paper's pairs and public prompts, fetched over the network, beside what it reports"""

    drafter: str | None = text(None, "a file, or OWNER/NAME[:FILE] on the Hub; left empty: the paper's")
    target: tuple[str, ...] = words(",".join(TARGETS), "NAME=OWNER/NAME:FILE each, or NAME=PATH; NAME as published")
    tasks: tuple[str, ...] = words(",".join(SOURCES), f"of {', '.join(SOURCES)}")
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
    regime: str = text("0.5b-F32", _REGIME)
    drafter_shape: str | None = text(None, _SHAPE)
    tasks: tuple[str, ...] = _tasks((*TASKS, EDIT))
    temperature: tuple[str, ...] = words("0,default,1", _COLUMNS)
    prompts: int = _count(8, "per task")
    max_tokens: int = _count(64, "longest answer", least=2)
    learn_prompts: int = _count(24, "per task, to learn from; 0: nothing is learned", least=0)
    learn_tokens: int = _count(96, "longest answer to learn from")
    seed: int = _count(0, "of the first prompt", least=0)
    server: str | None = text(None, "llama.cpp's llama-server; left empty: peers/llama-server in the cache folder")
