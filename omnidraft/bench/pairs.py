"""A target and a drafter, loaded as the app loads them, that answer in several ways; and the prompts they are asked.

Every way has a memory of its own (costs, acceptance, earlier texts) and begins with empty KV caches, so that what one
way did changes nothing for another. Which ways there are and what is made of their answers is the benchmarks' matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from omnidraft.app.assistant import Assistant
from omnidraft.bench.runner import ALL, EDIT
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Memory
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import TASKS, TOPICS, Prompt, in_turn, lesson_prompts, load_prompts, once
from omnidraft.lab.statistics import Trace, record
from omnidraft.learning.adapters.serving import Choice
from omnidraft.learning.material.record import Pairing, Record
from omnidraft.prompting.prompted_model import Message
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import Translator
from omnidraft.vocab.ngram_cache import NgramCache

PLAIN = "plain"
_WAYS = {
    PLAIN: DraftSettings(enabled=False),
    "lookup": DraftSettings(mode="lookup"),
    "adaptive": DraftSettings(mode="adaptive"),
}


def draft_settings(way: str) -> DraftSettings:
    """plain, lookup, fixed:K, or adaptive."""
    name, _, length = way.partition(":")
    if name == "fixed" and length.isdecimal():
        return DraftSettings(mode="fixed", length=int(length))
    if way in _WAYS:
        return _WAYS[way]
    raise SettingsError(f"There is no method {way[:40]}; known are plain, lookup, fixed:K, adaptive.")


class Frozen(Translator):
    """A translator whose cache learns nothing."""

    def emitted(self, target_id: int, source: str | None = None) -> None:
        pass


class Pair(AbstractContextManager):
    """Close it. pair: the map of the two vocabularies."""

    def __init__(self, home: DataHome, target: Path, drafter: Path, model: ModelSettings) -> None:
        with ExitStack() as opening:
            self.assistant = Assistant(home, ephemeral=True)
            opening.callback(self.assistant.close)
            self.assistant.load(target, drafter, model, CacheSettings(), adapter=None)
            loaded, engine = self.assistant.loaded, self.assistant.engine
            if engine is None or engine.drafter is None or loaded.drafter is None or loaded.pair is None:
                raise ModelError("No drafter is loaded that could be measured.")
            self.engine, self.pair, self.drafter = engine, loaded.pair, loaded.drafter
            self._seat, self._translator = engine.drafter, engine.translator
            self._memories: dict[str, Memory] = {}
            self.pairing = Pairing(loaded.pair, self._seat.template, engine.target.model.name, Choice(drafter))
            self._closing = opening.pop_all()

    def draft_with(self, cache: NgramCache | None, adapter: Path | None) -> None:
        """What the drafter drafts with from now on, without learning from what is asked."""
        self.drafter.set_adapter(str(adapter) if adapter else None)
        self._translator = Frozen(self.pair, cache)

    def cache_after(self, answers: Iterable[Record], settings: CacheSettings) -> NgramCache:
        """An n-gram cache in memory that has seen these answers."""
        cache = NgramCache.open(None, self.pair, settings)
        self._closing.callback(cache.close)
        for answer in answers:
            for token in answer.targets.tolist():
                cache.learn(token, answer.chat)
        return cache

    @cached_property
    def cost(self) -> CostModel:
        """What passes and draft steps take, measured once; empties both KV caches."""
        self._sit()
        return self.engine.measured()

    def _sit(self) -> None:
        self.engine.pair_drafter(self._seat.model, self._seat.template, self._translator)

    def answer(self, way: str, messages: Sequence[Message], sampling: SamplingSettings) -> Trace:
        """One answer, from empty KV caches."""
        draft = draft_settings(way)
        if way not in self._memories:
            by_cost = draft.enabled and draft.mode != "fixed"
            self._memories[way] = Memory.with_cost(self.cost.copy()) if by_cost else Memory()
        self._sit()
        self.engine.forget()
        self.engine.memory = self._memories[way]
        return record(self.assistant.answer(AnswerRequest(list(messages), sampling, draft)))

    def close(self) -> None:
        self._closing.close()

    def __exit__(self, *_: object) -> None:
        self.close()


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
    source = Path(__file__).parent / "edit.jsonl" if task == EDIT else task
    learned, asked = map(once, _split(load_prompts(source)))
    rng = np.random.default_rng([seed, *(ord(letter) for letter in task_name(task)[:16])])
    if task in TOPICS and len(learned) < train:
        learned += lesson_prompts(task)
    taken = {prompt.plain for prompt in asked}
    learned = [prompt for prompt in learned if prompt.plain not in taken]
    if not asked or (train and not learned):
        raise SettingsError(f"{task} holds no prompts to {'learn from' if asked else 'test on'}.")
    turns = -(-train // max(len(learned), 1))
    order = [i for _ in range(turns) for i in rng.permutation(len(learned))][:train]
    chosen = rng.permutation(len(asked))[:test]
    return Prompts(task_name(task), [learned[i] for i in order], [asked[i] for i in chosen])


def task_name(task: str) -> str:
    """A task's name in tables and folders."""
    return task if task in (*TASKS, EDIT, ALL) else Path(task).stem


def _split(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """(to learn from, to ask)."""
    if any(prompt.split for prompt in prompts):
        return [p for p in prompts if p.split == "train"], [p for p in prompts if p.split == "test"]
    test = prompts[TEST_SHARE - 1 :: TEST_SHARE]
    return [p for i, p in enumerate(prompts) if i % TEST_SHARE != TEST_SHARE - 1], test


def digest_of(prompts: Iterable[Prompt]) -> str:
    """Names these prompts in this order, so that it can be told whether a file has changed."""
    return hashlib.sha256(json.dumps([list(prompt.messages) for prompt in prompts]).encode()).hexdigest()[:16]
