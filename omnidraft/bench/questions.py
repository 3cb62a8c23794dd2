"""Which prompts a benchmark learns from and which it asks: drawn by a seed, never the same in both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnidraft.bench.runner import ALL, EDIT
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import TASKS, TOPICS, Prompt, in_turn, lesson_prompts, load_prompts, once

TEST_SHARE = 5  # of prompts without a split every fifth is for testing


@dataclass(frozen=True)
class Prompts:
    """A task's prompts under one seed. train: in the order they are asked; of a bundled task lessons are added where
    there are too few, and where there are too few still, prompts are repeated. test: each once."""

    task: str
    train: list[Prompt]
    test: list[Prompt]

    @property
    def digest(self) -> str:
        return digest([*self.train, *self.test])


def choose(task: str, seed: int, train: int, test: int) -> Prompts:
    """At most `test` prompts to ask and `train` others to learn from; task: a bundled one, EDIT, ALL, or a file.

    Raises SettingsError if nothing is left to ask or to learn from.
    """
    if task == ALL:
        parts = [choose(one, seed, -(-train // len(TASKS)), -(-test // len(TASKS))) for one in TASKS]
        return Prompts(ALL, in_turn(p.train for p in parts)[:train], in_turn(p.test for p in parts)[:test])
    source = Path(__file__).parent / "edit.jsonl" if task == EDIT else task
    learned, asked = map(once, _split(load_prompts(source)))
    rng = np.random.default_rng([seed, *(ord(letter) for letter in label(task)[:16])])
    if task in TOPICS and len(learned) < train:
        learned += lesson_prompts(task)
    taken = {prompt.plain for prompt in asked}
    learned = [prompt for prompt in learned if prompt.plain not in taken]
    if not asked or (train and not learned):
        raise SettingsError(f"{task} holds no prompts to {'learn from' if asked else 'test on'}.")
    turns = -(-train // max(len(learned), 1))
    order = [i for _ in range(turns) for i in rng.permutation(len(learned))][:train]
    chosen = rng.permutation(len(asked))[:test]
    return Prompts(label(task), [learned[i] for i in order], [asked[i] for i in chosen])


def label(task: str) -> str:
    """A task's name in tables and folders."""
    return task if task in (*TASKS, EDIT, ALL) else Path(task).stem


def _split(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """(to learn from, to ask)."""
    if any(prompt.split for prompt in prompts):
        return [p for p in prompts if p.split == "train"], [p for p in prompts if p.split == "test"]
    test = prompts[TEST_SHARE - 1 :: TEST_SHARE]
    return [p for i, p in enumerate(prompts) if i % TEST_SHARE != TEST_SHARE - 1], test


def digest(prompts: Iterable[Prompt]) -> str:
    """Names these prompts in this order, so that it can be told whether a file has changed."""
    return hashlib.sha256(json.dumps([list(prompt.messages) for prompt in prompts]).encode()).hexdigest()[:16]
