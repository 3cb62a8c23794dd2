"""Drift: how acceptance falls when the task or the target changes, and how it comes back.

A `DriftRun` answers the prompts of a schedule one after another and yields a point per prompt. It can be stopped, and
keeps what it has: its state is on disk after every prompt. No prompt occurs twice, every answer starts from cold KV
caches, and the n-gram cache is the run's own. Where the drafter learns, the app's own learner captures, trains and
judges. Knows nothing of pages and plots.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.events import Event as AnswerEvent
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine, Memory
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.schedule import Schedule, Segment, choose_prompts
from omnidraft.lab.store import Options, Point, RunState, RunStore, Status
from omnidraft.lab.trace import Trace, record
from omnidraft.learning.material.expansions import table_file
from omnidraft.learning.material.record import CAPTURE, Answered, Pairing, record_of
from omnidraft.settings.config import CacheSettings, DraftSettings, LearningSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import NgramCache, PairMap, Translator

if TYPE_CHECKING:
    from omnidraft.learning.training.stream import StreamLearner

LEARNING = LearningSettings(interval=8)  # answers of an update: a run is short


# The models of a drift run: one target at a time beside the drafter, and the run's own n-gram cache on disk. Each
# vocabulary pair has its table in the run's cache file, so a target that comes back finds what it left behind, and
# targets of one family share theirs. Nothing of a profile's is read or changed.


class LoadedTarget:
    """A target with the drafter and the cache of their pair. Close it before the next one is loaded.

    ways: how it answers, drafted and plainly, each with a memory of its own. pairing: what answers are learned with;
    adapter: what is drafted with, None for the bare drafter.
    """

    pairing: Pairing | None = None
    adapter: Path | None = None

    def __init__(self, target: Path, drafter: LlamaDrafter, options: Options, ngrams: Path, maps: Path) -> None:
        self.cache: NgramCache | None = None
        self._drafter = drafter
        with ExitStack() as opening:
            model = open_target(target, ModelSettings(threads=options.threads))
            opening.callback(model.close)
            self.pair = PairMap.build(drafter.vocabulary, model.vocabulary, maps)
            if options.cache != "off":
                self.cache = NgramCache.open(ngrams, self.pair, CacheSettings(seed=options.cache == "seeded"))
                opening.callback(self.cache.close)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            drafter.rewind(0)
            drafter.set_adapter(None)
            self.template = ChatTemplate.from_model(drafter.info, drafter.vocabulary)
            self.engine.pair_drafter(drafter, self.template, Translator(self.pair, self.cache))
            self._closing = opening.pop_all()
        drafting, memory = DraftSettings(mode="adaptive"), Memory()
        if options.draft_length is None:  # the adaptive length goes by cost; a fixed one has no use for it
            memory = Memory.with_cost(self.engine.measured())
        else:
            drafting = DraftSettings(mode="fixed", length=options.draft_length)
        self.ways = {"drafted": (drafting, memory), "plain": (DraftSettings(enabled=False), Memory())}

    def serve(self, adapter: Path | None) -> None:
        if adapter != self.adapter:
            self._drafter.set_adapter(str(adapter) if adapter else None)
            self.adapter = adapter

    def close(self) -> None:
        self._closing.close()


def start(
    home: DataHome, folder: Path, schedule: Schedule, targets: Mapping[str, Path], drafter: Path, options: Options
) -> DriftRun:  # fmt: skip
    """A new run below `folder`. targets: the model behind every name in the schedule.

    Raises SettingsError if a segment has too few prompts or a target is not given, StorageError for a bad file.
    """
    missing = [name for name in schedule.targets if name not in targets]
    if missing:
        raise SettingsError(f"The schedule's target {missing[0]} is not among the given models.")
    choose_prompts(schedule)
    store = RunStore(folder)
    return DriftRun(home, store, store.create(schedule, targets, drafter, options))


@dataclass(frozen=True, slots=True)
class Loading:
    """Models are being loaded for a segment."""

    target: str


class DriftRun:
    """One run that `start` made, also in another process. Iterate `events` once, in one thread; `stop` may be called
    from any."""

    def __init__(self, home: DataHome, store: RunStore, state: RunState) -> None:
        self.state, self.folder = state, store.run_folder(state.id)
        self._home, self._store, self._prompts = home, store, choose_prompts(state.schedule)
        self._stop = threading.Event()
        self._loaded: LoadedTarget | None = None
        self._learner: StreamLearner | None = None

    def stop(self) -> None:
        """End at once. The interrupted prompt does not count; the n-grams it has taught already stay."""
        self._stop.set()
        if (loaded := self._loaded) is not None:
            loaded.engine.cancel()

    def events(self) -> Iterator[Loading | Point]:
        """Answer the prompts. Closing the generator stops the run."""
        ended: Status = "stopped"
        try:
            self._keep("running")
            yield from self._answered()
        except Exception:
            ended = "failed"
            raise
        finally:
            self._keep("finished" if self.state.done == self.state.total else ended)

    def _answered(self) -> Iterator[Loading | Point]:
        """Until the run is over, or stopped."""
        options, segments = self.state.options, self.state.schedule.segments
        places = [(number, one, place) for number, one in enumerate(segments) for place in range(one.count)]
        drafter = LlamaDrafter.open(Path(self.state.drafter), ModelSettings(threads=options.threads))
        with closing(drafter), ExitStack() as models:
            for (number, segment, place), prompt in zip(places, self._prompts, strict=True):
                if self._stop.is_set():
                    return
                if place == 0 and (number == 0 or segment.target != segments[number - 1].target):
                    yield Loading(segment.target)
                    models.close()
                    loaded = self._loaded = models.enter_context(closing(self._load(segment, drafter)))
                point = self._point(loaded, number, segment, prompt, switch=number > 0 and place == 0)
                if point is None:
                    return
                self.state.points.append(point)
                self._keep("running")
                yield point

    def _load(self, segment: Segment, drafter: LlamaDrafter) -> LoadedTarget:
        """The segment's target. Where the run learns, with what its vocabulary has learned; a new one starts warm from
        the last."""
        state, options = self.state, self.state.options
        target, ngrams = Path(state.targets[segment.target]), self.folder / "ngrams.sqlite"
        loaded = LoadedTarget(target, drafter, options, ngrams, self._home.cache)
        if options.learning:
            from omnidraft.learning.training.stream import StreamLearner  # brings torch

            self._learner = self._learner or StreamLearner(
                self.folder, Path(state.drafter), LEARNING, options.seed, threads=options.threads
            )
            name, table = loaded.engine.target.model.name, table_file(self.folder, loaded.pair)
            choice = self._learner.switched(loaded.pair.target.fingerprint, name, table)
            loaded.pairing = Pairing(loaded.pair, loaded.template, name, choice)
            loaded.serve(choice.adapter)
        return loaded

    def _learn(self, loaded: LoadedTarget, prompt: Prompt, events: Sequence[AnswerEvent]) -> None:
        """Hand an answer to the learner, and draft with what comes of it."""
        if self._learner is None or loaded.pairing is None:
            return
        *_, finished = events
        assert isinstance(finished, Finished)  # as every answer ends
        request = AnswerRequest(
            prompt.messages, SamplingSettings(temperature=self.state.options.temperature), source=prompt.id
        )
        tokens = [event for event in events if isinstance(event, Token)]
        if (made := record_of(Answered(request, tokens, finished), loaded.pairing)) is not None:
            self._learner.add(replace(made, task=prompt.task))
        loaded.serve(self._learner.choice.adapter)

    def _point(self, loaded: LoadedTarget, number: int, segment: Segment, prompt: Prompt, switch: bool) -> Point | None:
        """Answer a prompt, with the drafter and perhaps plainly; None if the run was stopped meanwhile."""
        index, began, served = self.state.done, perf_counter(), loaded.adapter
        found: dict[str, list[AnswerEvent]] = {}
        ways = ("drafted", "plain") if self.state.options.plain else ("drafted",)
        for way in ways if index % 2 else ways[::-1]:  # in turns, so that neither is always the warmer one
            found[way] = self._answer(loaded, prompt, way, index)
            if self._stop.is_set():
                return None
        cached = {"entries": 0, "seeded": 0}
        if loaded.cache is not None:
            loaded.cache.commit()
            cached = loaded.cache.stats()
        self._learn(loaded, prompt, found["drafted"])
        drafted = record(found["drafted"])
        speed, plain_speed = _speed(drafted), _speed(record(found["plain"])) if "plain" in found else None
        return Point(
            index, number, segment.target, prompt.task or segment.task, prompt.id,
            proposed=drafted.proposed,
            accepted=drafted.accepted,
            acceptance=drafted.accepted / drafted.proposed if drafted.proposed else None,
            tokens=drafted.tokens,
            passes=len(drafted.rounds),
            tokens_per_pass=drafted.tokens / max(len(drafted.rounds), 1),
            tokens_per_second=speed,
            plain_tokens_per_second=plain_speed,
            speedup=speed / plain_speed if plain_speed else None,
            cache_entries=cached["entries"],
            cache_learned=cached["entries"] - cached["seeded"],
            switch=switch,
            degenerate=drafted.degenerate,
            adapter="/".join(served.parts[-3:-1]) if served else None,
            seconds=perf_counter() - began,
        )  # fmt: skip

    def _answer(self, loaded: LoadedTarget, prompt: Prompt, way: str, index: int) -> list[AnswerEvent]:
        """All events of one answer from cold caches; cut short if the run is stopped."""
        options, engine = self.state.options, loaded.engine
        draft, engine.memory = loaded.ways[way]
        engine.forget()
        sampling = SamplingSettings.unfiltered(
            temperature=options.temperature, seed=options.seed + index, max_tokens=options.max_tokens
        )
        capture = CAPTURE if options.learning and way == "drafted" else 0
        events = []
        try:
            for event in engine.answer(AnswerRequest(prompt.messages, sampling, draft, capture=capture)):
                events.append(event)
                if self._stop.is_set():  # it may have come before the engine had begun
                    engine.cancel()
        except ModelError as error:
            raise ModelError(f"The prompt {prompt.id} cannot be answered. {error}") from error
        return events

    def _keep(self, status: Status) -> None:
        self.state.status = status
        self._store.save(self.state)


def _speed(trace: Trace) -> float:
    return trace.tokens / trace.decode if trace.decode else 0.0
