"""What a learning run asks: the plan, the prompts it learns from and the ones it is tested on. No models here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from omnidraft.bench.columns import DEFAULT, Column
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import TASKS, Prompt, load_prompts
from omnidraft.lab.topics import TOPICS, lesson_prompts
from omnidraft.settings.config import LearningSettings

_NOTHING_TO_DO_WITH_IT = ("loss", "enabled", "cpu_percent", "keep_minutes", "scope")  # the loss is a condition's own
LOSS_NAMES = ("dm", "hybrid", "hybrid_p", "ngram", "dm_nll", "both_kl", "projected")
TEST_SHARE = 5  # of prompts without a split every fifth is for testing


@dataclass(frozen=True)
class LearnPlan:
    """One run. tasks: bundled names or prompt files; data: a folder of `<task>.jsonl` that replaces the bundled ones;
    test_file: test prompts of its own for every task. train_tokens, test_tokens: longest answers. temperatures: columns
    of the tests; train_temperature: of the answers learned from. curve: test after 1, 2, 4, ... updates too.
    reference: also distil offline to convergence. sequence: all tasks one after the other as one more stream.
    recorded: a folder of cells (`FILE.cells`) whose answers are taken over where they are answers to the same prompts.
    """

    targets: Sequence[Path]
    drafter: Path
    tasks: Sequence[str] = TASKS
    losses: Sequence[str] = ("projected",)
    train_prompts: int = 300
    test_prompts: int = 20
    seeds: int = 3
    train_tokens: int = 128
    test_tokens: int = 64
    temperatures: Sequence[Column] = (0.0, 1.0, DEFAULT)
    train_temperature: float = 1.0
    data: Path | None = None
    test_file: Path | None = None
    curve: bool = True
    reference: bool = True
    sequence: bool = False
    threads: int = 1
    recorded: Path | None = None
    learning: LearningSettings = field(default_factory=LearningSettings)

    def __post_init__(self) -> None:
        for name in ("train_prompts", "test_prompts", "seeds", "train_tokens", "test_tokens"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}, but must be at least 1.")
        for loss in self.losses:
            if loss not in LOSS_NAMES:
                raise SettingsError(f"There is no loss {loss}; known are {', '.join(LOSS_NAMES)}.")
        if self.sequence and len(self.tasks) < 2:
            raise SettingsError("A sequence takes at least two tasks.")

    def decides(self) -> dict:
        """What a cell's numbers depend on beside its target, task, seed and loss; interrupted runs must agree in it."""
        names = ("train_prompts", "test_prompts", "train_tokens", "test_tokens", "train_temperature")
        values = {name: getattr(self, name) for name in names} | {"temperatures": list(self.temperatures)}
        learning = asdict(self.learning)
        kept = {name: learning[name] for name in learning if name not in _NOTHING_TO_DO_WITH_IT}
        files = [self.drafter, *self.targets]
        return values | {"learning": kept, "models": {path.stem: _digest(path) for path in files}}


@dataclass(frozen=True)
class Prompts:
    """A task's prompts under one seed. train: in the order they are asked; of a bundled task lessons are added where
    there are too few, and where there are too few still, prompts are repeated."""

    task: str
    train: list[Prompt]
    test: list[Prompt]

    @property
    def digest(self) -> str:
        texts = [[m["content"] for m in p.messages] for p in (*self.train, *self.test)]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def choose(plan: LearnPlan, task: str, seed: int) -> Prompts:
    """Prompts in an order drawn by the seed; no training prompt is also a test prompt.

    Raises SettingsError if nothing is left to learn from or to test on.
    """
    source = plan.data / f"{task}.jsonl" if plan.data and task in TASKS else task
    train, test = _split(load_prompts(source))
    if plan.test_file:
        test = load_prompts(plan.test_file)
    rng = np.random.default_rng([seed, *source_number(task)])
    asked = {_plain(prompt) for prompt in test}
    if source in TOPICS and len(train) < plan.train_prompts:
        train += lesson_prompts(str(source))
    train = [prompt for prompt in train if _plain(prompt) not in asked]
    if not train or not test:
        raise SettingsError(f"{source} holds no prompts to {'test on' if train else 'learn from'}.")
    turns = -(-plan.train_prompts // len(train))
    order = np.concatenate([rng.permutation(len(train)) for _ in range(turns)])[: plan.train_prompts]
    chosen = rng.permutation(len(test))[: plan.test_prompts]
    return Prompts(label(task), [train[i] for i in order], [test[i] for i in chosen])


def label(task: str) -> str:
    """A task's name in tables and folders."""
    return task if task in TASKS else Path(task).stem


def source_number(task: str) -> list[int]:
    """Makes each task's order its own."""
    return [ord(letter) for letter in label(task)[:16]]


def _split(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    if any(prompt.split for prompt in prompts):
        return [p for p in prompts if p.split == "train"], [p for p in prompts if p.split == "test"]
    test = prompts[TEST_SHARE - 1 :: TEST_SHARE]
    return [p for i, p in enumerate(prompts) if i % TEST_SHARE != TEST_SHARE - 1], test


def _plain(prompt: Prompt) -> str:
    return " ".join(" ".join(m["content"] for m in prompt.messages).split()).casefold()


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
