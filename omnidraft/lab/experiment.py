"""An experiment: prompts answered in several ways by one target, in turns, told as typed events.

Every way answers the same prompts, each from empty KV caches, and each is first equally often: what else the machine
does meets all of them alike. An answer that is cut, as somebody else is to be answered, is asked again with those it is
compared with, so that no time of it counts. Knows no page, and keeps nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from omnidraft.backends.llama import widths
from omnidraft.backends.opening import open_target
from omnidraft.decoding.events import Event, Finished, Token
from omnidraft.decoding.pace import Pace
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine, Memory
from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.statistics import Trace, record
from omnidraft.learning.adapters.serving import Choice, open_choice
from omnidraft.learning.material.record import Answered, Pairing, Record, record_of
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab import NgramCache, PairMap, Translator
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

W = TypeVar("W", bound=Hashable)  # names a way


@dataclass(frozen=True, slots=True)
class Began(Generic[W]):
    """A way begins with a prompt, counted from 0."""

    number: int
    way: W
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Said(Generic[W]):
    """An event of the answer in a way."""

    way: W
    event: Event


@dataclass(frozen=True, slots=True)
class Turn(Generic[W]):
    """A prompt's answers. took: seconds of each, from being asked to the end."""

    number: int
    prompt: Prompt
    traces: dict[W, Trace]
    took: dict[W, float]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An answer was cut; its prompt is asked again when the reader goes on."""


Told = Began[W] | Said[W] | Turn[W] | Interrupted
Ask = Callable[[W, int, Prompt], Generator[Event, None, None]]  # way, number of the prompt, prompt


def experiment(
    ways: Sequence[W], prompts: Sequence[Prompt], ask: Ask[W], cut: Callable[[], bool] = bool
) -> Iterator[Told[W]]:
    """Every prompt in every way, as `ask` answers it. cut: whether the answer that is being written shall end."""
    for number, prompt in enumerate(prompts):
        first = number % len(ways)
        order = [*ways[first:], *ways[:first]]
        while (turn := (yield from _turn(order, number, prompt, ask, cut))) is None:
            yield Interrupted()
        yield turn


def _turn(
    order: Sequence[W], number: int, prompt: Prompt, ask: Ask[W], cut: Callable[[], bool]
) -> Generator[Told[W], None, Turn[W] | None]:
    """None if it was cut."""
    turn: Turn[W] = Turn(number, prompt, {}, {})
    for way in order:
        yield Began(number, way, prompt)
        began, events = time.perf_counter(), list[Event]()
        with closing(ask(way, number, prompt)) as answer:
            for event in answer:
                events.append(event)
                yield Said(way, event)
                if cut():
                    return None
        turn.traces[way], turn.took[way] = record(events), time.perf_counter() - began
    return turn


def same_ids(plain: Sequence[Trace], found: Sequence[Trace]) -> int:
    """How many answers are the same tokens."""
    return sum(one.ids == other.ids for one, other in zip(plain, found, strict=True))


def material(request: AnswerRequest, events: Iterable[Event], pairing: Pairing) -> Record | None:
    """What a drafter learns from an answer; None if that is nothing."""
    *said, finished = events
    assert isinstance(finished, Finished)  # as every answer ends
    return record_of(Answered(request, [event for event in said if isinstance(event, Token)], finished), pairing)


# The ways of a loaded pair. Each has a memory of its own (costs, acceptance, earlier texts), so that what one way did
# changes nothing for another.


PLAIN = "plain"
_WAYS = {
    PLAIN: DraftSettings(enabled=False),
    "lookup": DraftSettings(mode="lookup"),
    "adaptive": DraftSettings(mode="adaptive"),
}
FIXED = "fixed:4"  # what is accepted of drafts of one length can be compared


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
    """A target and a drafter, loaded, with the n-gram cache of both: in the file `ngrams`, else in memory. Close it.

    pair: the map of the two vocabularies; pairing: what answers are learned with; adapter: what is drafted with, None
    for the bare drafter.
    """

    def __init__(
        self, home: DataHome, target: Path, drafter: Path, model: ModelSettings, ngrams: Path | None = None
    ) -> None:
        TRIALS.keep_in(home.cache)
        widths.KNOWN.keep_in(home.cache)
        with ExitStack() as opening:
            asked = opening.enter_context(closing(open_target(target, model)))
            vocabulary = read_gguf_vocabulary(drafter)
            self.pair = PairMap.build(vocabulary, asked.vocabulary, home.cache)
            self.drafter, choice = open_choice(Choice(drafter), model, vocabulary)
            opening.callback(self.drafter.close)
            self.cache = opening.enter_context(closing(NgramCache.open(ngrams, self.pair, CacheSettings())))
            self.engine = Engine(asked, ChatTemplate.from_model(asked.info, asked.vocabulary))
            template = ChatTemplate.from_model(self.drafter.info, vocabulary)
            self.pairing = Pairing(self.pair, template, asked.name, choice)
            self._closing = opening.pop_all()
        self.adapter: Path | None = None
        self._translator = Translator(self.pair, self.cache)
        self._memories: dict[str, Memory] = {}
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # going through what was loaded would fall into the middle of an answer

    def serve(self, adapter: Path | None) -> None:
        """Draft with this from now on."""
        if adapter != self.adapter:
            self.drafter.set_adapter(str(adapter) if adapter else None)
            self.adapter = adapter

    def freeze(self, cache: NgramCache | None) -> None:
        """Draft with this cache from now on, or without one, and learn nothing from what is asked."""
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
    def pace(self) -> Pace:
        """What passes and draft steps take, measured once; empties both KV caches."""
        self._sit()
        return self.engine.measured()

    @property
    def found(self) -> Pace:
        """`pace`, as the latest way that goes by it corrected it by real rounds."""
        return next((memory.pace for memory in reversed(self._memories.values()) if memory.pace is not None), self.pace)

    def _sit(self) -> None:
        self.engine.pair_drafter(self.drafter, self.pairing.template, self._translator)

    def answer(self, way: str, request: AnswerRequest) -> Generator[Event, None, None]:
        """Events of one answer, from empty KV caches."""
        draft = draft_settings(way)
        if way not in self._memories:
            by_pace = draft.enabled and draft.mode != "fixed"
            self._memories[way] = Memory(self.pace.duplicate() if by_pace else None)
        self._sit()
        self.engine.forget()
        self.engine.memory = self._memories[way]
        yield from self.engine.answer(replace(request, draft=draft))
        self.cache.commit()

    def close(self) -> None:
        self._closing.close()

    def __exit__(self, *_: object) -> None:
        self.close()


# The kinds of sampling that experiments set side by side: temperatures over the whole distribution, and the defaults. A
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


def answers(
    answer: Callable[[W, AnswerRequest], Generator[Event, None, None]], ways: Sequence[W], prompts: Sequence[Prompt],
    column: Column, seed: int, longest: int,
) -> dict[W, list[Trace]]:  # fmt: skip
    """By way, what an experiment came to that nobody looks at meanwhile. Each prompt has a seed of its own, counted
    from `seed`, the same in every way; longest: tokens of an answer."""

    def ask(way: W, number: int, prompt: Prompt) -> Generator[Event, None, None]:
        sampling = sampling_of(column, seed=seed + number, max_tokens=longest)
        return answer(way, AnswerRequest(prompt.messages, sampling))

    turns = [event for event in experiment(ways, prompts, ask) if isinstance(event, Turn)]
    return {way: [turn.traces[way] for turn in turns] for way in ways}
