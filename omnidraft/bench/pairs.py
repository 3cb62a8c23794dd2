"""A target and a drafter, loaded as the app loads them, that answer in several ways.

Every way has a memory of its own (costs, acceptance, earlier texts) and begins with empty KV caches, so that what one
way did changes nothing for another. Which ways there are and what is made of their answers is the benchmarks' matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from omnidraft.app.assistant import Assistant
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.cost import CostModel
from omnidraft.decoding.events import Event
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine, Memory
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.trace import Trace, record
from omnidraft.learning.material.record import Record
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import PairMap, Translator
from omnidraft.vocab.ngram_cache import NgramCache

PLAIN = "plain"


def draft_settings(way: str) -> DraftSettings:
    """plain, lookup, fixed:K, adaptive, or adaptive-alone (without lookups)."""
    name, _, value = way.partition(":")
    try:
        match name:
            case "plain":
                return DraftSettings(enabled=False)
            case "lookup":
                return DraftSettings(mode="lookup")
            case "fixed":
                return DraftSettings(mode="fixed", length=int(value))
            case "adaptive":
                return DraftSettings(mode="adaptive")
            case "adaptive-alone":
                return DraftSettings(mode="adaptive", lookup=False)
    except ValueError:
        pass
    raise SettingsError(f"There is no method {way[:40]}; known are plain, lookup, fixed:K, adaptive.")


class Frozen(Translator):
    """A translator whose cache learns nothing."""

    def emitted(self, target_id: int, source: str | None = None) -> None:
        pass


class Pair:
    """Close it. pair: the map of the two vocabularies."""

    def __init__(self, home: DataHome, target: Path, drafter: Path, model: ModelSettings) -> None:
        with ExitStack() as opening:
            self.assistant = Assistant(home, ephemeral=True)
            opening.callback(self.assistant.close)
            self.assistant.load(target, drafter, model, CacheSettings(), adapter=None)
            loaded, engine = self.assistant.loaded, self.engine
            if loaded.pair is None or loaded.drafter is None or engine.drafter is None or engine.translator is None:
                raise ModelError("No drafter is loaded that could be measured.")
            self.pair: PairMap = loaded.pair
            self.drafter: LlamaDrafter = loaded.drafter
            self._seat, self._translator = engine.drafter, engine.translator
            self._memories: dict[str, Memory] = {}
            self._cost: CostModel | None = None
            self._closing = opening.pop_all()

    @property
    def template(self) -> ChatTemplate:
        """The drafter's."""
        return self._seat.template

    @property
    def engine(self) -> Engine:
        if self.assistant.engine is None:
            raise ModelError("Nothing is loaded that could be measured.")
        return self.assistant.engine

    def draft_with(self, cache: NgramCache | None, adapter: Path | None) -> None:
        """What the drafter drafts with from now on, without learning from what is asked."""
        self.drafter.set_adapter(str(adapter) if adapter else None)
        self._translator = Frozen(self.pair, cache)

    def cache_after(self, answers: Iterable[tuple[Sequence[int], str]], settings: CacheSettings) -> NgramCache:
        """An n-gram cache in memory that has seen these answers (target ids, conversation)."""
        cache = NgramCache.open(None, self.pair, settings)
        self._closing.callback(cache.close)
        for ids, chat in answers:
            for token in ids:
                cache.learn(token, chat)
        return cache

    def forget(self) -> None:
        """Give every way a fresh memory that knows the measured costs and nothing else."""
        self._memories = {}

    def cost(self) -> CostModel:
        """What passes and draft steps take, measured once; empties both KV caches."""
        if self._cost is None:
            self._sit()
            self._cost = self.engine.measured()
        return self._cost

    def _sit(self) -> None:
        self.engine.pair_drafter(self._seat.model, self._seat.template, self._translator)

    def answer(self, way: str, messages: Sequence[Message], sampling: SamplingSettings) -> Trace:
        return record(self.events(way, messages, sampling))

    def events(self, way: str, messages: Sequence[Message], sampling: SamplingSettings) -> Iterator[Event]:
        """One answer, from empty KV caches."""
        draft = draft_settings(way)
        if way not in self._memories:
            by_cost = draft.enabled and draft.mode != "fixed"
            self._memories[way] = Memory.with_cost(self.cost().copy()) if by_cost else Memory()
        self._sit()
        self.engine.forget()
        self.engine.memory = self._memories[way]
        yield from self.assistant.answer(AnswerRequest(list(messages), sampling, draft))

    def close(self) -> None:
        self._closing.close()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def said(records: Iterable[Record]) -> Iterator[tuple[list[int], str]]:
    """Recorded answers as `cache_after` takes them."""
    return ((record.targets.tolist(), record.chat) for record in records)


# Public prompts of the paper (OmniDraft, arXiv 2507.02659 v3), by the names their data sets had. Data only.


class Source(NamedTuple):
    """Rows of a data set from `offset` on; form: the question they make."""

    dataset: str
    config: str
    split: str
    form: str
    offset: int = 0


_SUMMARY = "Summarize this article in one sentence.\n\n{document}"
_ALPACA = Source("tatsu-lab/alpaca", "default", "train", "{instruction}\n\n{input}")
SOURCES: dict[str, dict[str, tuple[Source, ...]]] = {
    "gsm8k": {part: (Source("openai/gsm8k", "main", part, "{question}"),) for part in ("train", "test")},
    "code": {
        "train": (Source("google-research-datasets/mbpp", "full", "train", "{text}"),),
        "test": (
            Source("google-research-datasets/mbpp", "full", "test", "{text}"),
            Source("openai/openai_humaneval", "openai_humaneval", "test", "Complete this function.\n\n{prompt}"),
        ),
    },
    "alpaca": {"train": (_ALPACA,), "test": (_ALPACA._replace(offset=50_000),)},
    "xsum": {part: (Source("EdinburghNLP/xsum", "default", part, _SUMMARY),) for part in ("train", "test")},
}
