"""Test prompts answered by the real engine at draft length 4 with learning frozen, and what came of each.

One loaded pair is asked under many conditions: with or without n-gram cache, with or without an adapter. Neither the
cache nor the drafter learns from a test. An answer that begins to loop counts up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.bench.columns import Column, sampling_of
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.trace import Trace, record
from omnidraft.learning.material.record import Record
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings
from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache

DRAFT = DraftSettings(mode="fixed", length=4)


@dataclass(frozen=True, slots=True)
class Count:
    """One test answer."""

    proposed: int
    accepted: int
    tokens: int
    passes: int
    looped: bool


class Frozen(Translator):
    """A translator whose cache learns nothing."""

    def emitted(self, target_id: int, source: str | None = None) -> None:
        pass


class Tester:
    """A target and the drafter, loaded once. Close it."""

    def __init__(self, target: Path, drafter: Path, maps: Path, threads: int) -> None:
        settings = ModelSettings(threads=threads)
        with ExitStack() as opening:
            model = open_target(target, settings)
            opening.callback(model.close)
            self.drafter = LlamaDrafter.open(drafter, settings)
            opening.callback(self.drafter.close)
            self.pair = PairMap.build(self.drafter.vocabulary, model.vocabulary, maps)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            self._template = ChatTemplate.from_model(self.drafter.info, self.drafter.vocabulary)
            self._closing = opening.pop_all()

    def cache_after(self, records: Iterable[Record], settings: CacheSettings | None = None) -> NgramCache:
        """An n-gram cache that has seen these answers; seeded, as it is by default, unless `settings` say otherwise."""
        cache = NgramCache.open(None, self.pair, settings or CacheSettings())
        for answer in records:
            for token in answer.targets.tolist():
                cache.learn(token, answer.chat)
        return cache

    def ask(
        self, prompts: Sequence[Prompt], temperature: Column, max_tokens: int, seed: int, cache: NgramCache | None,
        adapter: Path | None,
    ) -> list[Count]:  # fmt: skip
        """Counts in the order of the prompts; the same seed gives the same texts under every condition."""
        self.draft_with(cache, adapter)
        return [
            Count(trace.proposed, trace.accepted, trace.tokens, len(trace.rounds), trace.degenerate)
            for trace in self.traces(prompts, temperature, max_tokens, seed)
        ]

    def draft_with(self, cache: NgramCache | None, adapter: Path | None) -> None:
        """The condition that prompts are asked under from now on."""
        self.drafter.set_adapter(str(adapter) if adapter else None)
        self.engine.pair_drafter(self.drafter, self._template, Frozen(self.pair, cache))

    def traces(
        self, prompts: Sequence[Prompt], temperature: Column, max_tokens: int, seed: int, draft: DraftSettings = DRAFT
    ) -> Iterator[Trace]:
        """An answer a prompt, from cold KV caches."""
        for number, prompt in enumerate(prompts):
            self.engine.forget()
            sampling = sampling_of(temperature, seed=seed * 1_000_003 + number, max_tokens=max_tokens)
            yield record(self.engine.answer(AnswerRequest(list(prompt.messages), sampling, draft)))

    def close(self) -> None:
        self._closing.close()

    def __enter__(self) -> Tester:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
