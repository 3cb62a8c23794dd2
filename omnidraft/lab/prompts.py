"""Prompts for tests and benchmarks: the bundled set, a user's JSONL, or a plain text file.

A prompt is what is asked, never an answer: messages from the first assistant message on are dropped.
Knows nothing of models or templates.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np

from omnidraft.errors import SettingsError, StorageError
from omnidraft.storage.files import read, read_json

Split = Literal["train", "test"]
TASKS = ("math", "code", "dialogue", "qa")
EDIT = "edit"  # "write this text again"
ALL = "all"  # the bundled tasks in turn
SPLITS = ("train", "test")
ROLES = ("system", "user", "assistant")
BUNDLED = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Prompt:
    """One thing to ask a model. `messages` are {"role", "content"} dicts and end with the user's."""

    id: str
    task: str
    split: Split | None
    messages: tuple[dict[str, str], ...]

    @property
    def text(self) -> str:
        """The last user message."""
        return self.messages[-1]["content"]

    @property
    def plain(self) -> str:
        """All that is asked, to compare by: spaces and capital letters make no other prompt."""
        return " ".join(" ".join(message["content"] for message in self.messages).split()).casefold()


def load_prompts(task_or_path: str | Path, split: Split | None = None, limit: int | None = None) -> list[Prompt]:
    """The prompts of a bundled task ("math", "code", "dialogue", "qa", "edit") or of a file, in file order.

    A *.jsonl file holds one object a line, `{"messages": [...]}` with optional `id`, `task` and `split`; any other file
    is plain text, one prompt a line. Blank lines are skipped. With `split` only the prompts of that split are kept.
    Raises StorageError naming file and line for a bad file.
    """
    path = BUNDLED / f"{task_or_path}.jsonl" if task_or_path in (*TASKS, EDIT) else Path(task_or_path)
    read = _json_prompts if path.suffix.lower() == ".jsonl" else _plain_prompts
    prompts = [prompt for prompt in read(path) if split is None or prompt.split == split]
    if not prompts:
        which = f" of the split {split!r}" if split else ""
        raise StorageError(f"{path} holds no prompts{which}.")
    return prompts[:limit]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Non-blank lines with their numbers, counted from 1."""
    try:
        text = read(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        tasks = ", ".join(TASKS)
        raise StorageError(f"There is no prompt file {path}, and the bundled tasks are {tasks}.") from None
    except UnicodeDecodeError:
        raise StorageError(f"{path} is not a UTF-8 text file.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.strip()


def _plain_prompts(path: Path) -> Iterator[Prompt]:
    for number, line in _lines(path):
        yield Prompt(f"{path.stem}-{number}", path.stem, None, ({"role": "user", "content": line},))


def _json_prompts(path: Path) -> Iterator[Prompt]:
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            record = read_json(line)
        except (ValueError, RecursionError):  # a number of 5,000 digits is no JSONDecodeError
            raise StorageError(f"{where} is not valid JSON.") from None
        yield _prompt(record, where, default_id=f"{path.stem}-{number}", default_task=path.stem)


def _prompt(record: Any, where: str, default_id: str, default_task: str) -> Prompt:
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise StorageError(f'{where} must be an object with a list "messages".')
    split = record.get("split")
    if split is not None and split not in SPLITS:
        raise StorageError(f'{where}: "split" must be one of {", ".join(SPLITS)}.')
    messages = _before_answer(record["messages"], where)
    return Prompt(str(record.get("id", default_id)), str(record.get("task", default_task)), split, messages)


def _before_answer(messages: list[Any], where: str) -> tuple[dict[str, str], ...]:
    """The messages ahead of the first assistant message, checked."""
    kept: list[dict[str, str]] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES or not isinstance(message.get("content"), str):
            raise StorageError(f'{where}: every message needs a "role" ({", ".join(ROLES)}) and a text "content".')
        if role == "assistant":
            break
        kept.append({"role": role, "content": message["content"]})
    if not kept or kept[-1]["role"] != "user":
        raise StorageError(f"{where}: a prompt must end with a user message before the first assistant message.")
    return tuple(kept)


def in_turn(parts: Iterable[Iterable[Prompt]]) -> list[Prompt]:
    """The first of each, the second of each, as long as any has one."""
    return [prompt for row in zip_longest(*parts) for prompt in row if prompt is not None]


def once(prompts: Iterable[Prompt]) -> list[Prompt]:
    """No text twice."""
    return list({prompt.plain: prompt for prompt in prompts}.values())


# What a user of the bundled models asks for a while: questions of one topic that these models can answer. A topic is a
# bundled task, its prompts in an order drawn once so that the first ones are like the last ones, or a file of prompts
# of the user's own, in its order. Bundled ones come with many more of the same kind to be taught with.


TOPICS = {
    "math": "sums and word problems",
    "code": "small Python functions",
    "qa": "OmniDraft and everyday facts",
    "dialogue": "services and small talk",
}


# What small models answer in a loop ("0.3333..."), from which nobody learns how fast anything is: comes last.
LOOPING = frozenset({"math-017", "math-064"})


def topic_prompts(name_or_file: str | Path, most: int | None = None) -> list[Prompt]:
    """The questions of a topic, no text twice; a file may hold fewer than `most`."""
    prompts = once(load_prompts(name_or_file))
    if str(name_or_file) in TOPICS:
        random.Random(5).shuffle(prompts)
        prompts.sort(key=lambda prompt: prompt.id in LOOPING)
    return prompts[:most]


def lesson_prompts(topic: str, most: int | None = None) -> list[Prompt]:
    """Prompts to teach a bundled topic with, none of them in `topic_prompts`."""
    return load_prompts(BUNDLED / "lessons" / f"{topic}.jsonl")[:most]


def own_prompts(text: str) -> list[Prompt]:
    """One prompt a line, as somebody wrote them into a field; no text twice."""
    lines = dict.fromkeys(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return [
        Prompt(f"own-{number}", "my own", None, ({"role": "user", "content": line},))
        for number, line in enumerate(lines, 1)
    ]


# Which prompts a benchmark learns from and which it asks: drawn by a seed, never the same in both.


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
        return digest_of([*self.train, *self.test])


def choose(task: str, seed: int, train: int, test: int) -> Prompts:
    """At most `test` prompts to ask and `train` others to learn from; task: a bundled one, EDIT, ALL, or a file.

    Raises SettingsError if nothing is left to ask or to learn from.
    """
    if task == ALL:
        parts = [choose(one, seed, -(-train // len(TASKS)), -(-test // len(TASKS))) for one in TASKS]
        return Prompts(ALL, in_turn(p.train for p in parts)[:train], in_turn(p.test for p in parts)[:test])
    name = Path(task).stem
    learned, asked = map(once, _split(load_prompts(task)))
    rng = np.random.default_rng([seed, *(ord(letter) for letter in name[:16])])
    if task in TOPICS and len(learned) < train:
        learned += lesson_prompts(task)
    taken = {prompt.plain for prompt in asked}
    learned = [prompt for prompt in learned if prompt.plain not in taken]
    if not asked or (train and not learned):
        raise SettingsError(f"{task} holds no prompts to {'learn from' if asked else 'test on'}.")
    turns = -(-train // max(len(learned), 1))
    order = [i for _ in range(turns) for i in rng.permutation(len(learned))][:train]
    chosen = rng.permutation(len(asked))[:test]
    return Prompts(name, [learned[i] for i in order], [asked[i] for i in chosen])


def _split(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """(to learn from, to ask)."""
    if any(prompt.split for prompt in prompts):
        return [p for p in prompts if p.split == "train"], [p for p in prompts if p.split == "test"]
    test = prompts[TEST_SHARE - 1 :: TEST_SHARE]
    return [p for i, p in enumerate(prompts) if i % TEST_SHARE != TEST_SHARE - 1], test


def digest_of(prompts: Iterable[Prompt]) -> str:
    """Names these prompts in this order, so that it can be told whether a file has changed."""
    return hashlib.sha256(json.dumps([list(prompt.messages) for prompt in prompts]).encode()).hexdigest()[:16]
