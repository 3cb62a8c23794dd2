"""Drift: how acceptance falls when the task or the target changes, and how it comes back.

A `DriftRun` answers the prompts of a schedule one after another and yields a typed event per prompt. It can be stopped,
and keeps what it has: its state is on disk after every prompt. No prompt occurs twice, every answer starts from cold KV
caches, and the n-gram cache is the run's own. Knows nothing of pages and plots.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
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
from omnidraft.lab.store import (
    DriftEvent,
    Ended,
    Loading,
    Options,
    Point,
    RunState,
    RunStore,
    Status,
    Step,
    seconds_left,
)
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.vocab import NgramCache, PairMap, Translator

if TYPE_CHECKING:
    from omnidraft.lab.learning import RunLearner


# The models of a drift run: one target at a time beside the drafter, and the run's own n-gram cache on disk. Each
# vocabulary pair has its table in the run's cache file, so a target that comes back finds what it left behind, and
# targets of one family share theirs. Nothing of a profile's is read or changed.


PLAIN = DraftSettings(enabled=False)


def draft_settings(options: Options) -> DraftSettings:
    if options.draft_length is None:
        return DraftSettings(mode="adaptive")
    return DraftSettings(mode="fixed", length=options.draft_length)


class LoadedTarget:
    """A target with the drafter and the cache of their pair. Close it before the next one is loaded."""

    def __init__(self, target: Path, drafter: LlamaDrafter, options: Options, ngrams: Path, maps: Path) -> None:
        self.path = target
        self.cache: NgramCache | None = None
        self._closing = ExitStack()
        with ExitStack() as opening:
            model = open_target(target, ModelSettings(threads=options.threads))
            opening.callback(model.close)
            self.pair = PairMap.build(drafter.vocabulary, model.vocabulary, maps)
            if options.cache != "off":
                self.cache = NgramCache.open(ngrams, self.pair, CacheSettings(seed=options.cache == "seeded"))
                opening.callback(self.cache.close)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            drafter.rewind(0)
            template = ChatTemplate.from_model(drafter.info, drafter.vocabulary)
            self.engine.pair_drafter(drafter, template, Translator(self.pair, self.cache))
            self._closing = opening.pop_all()
        self.drafting = Memory()
        self.plain = Memory()
        if options.draft_length is None:  # the adaptive length goes by cost; a fixed one has no use for it
            self.drafting = Memory.with_cost(self.engine.measured())

    @property
    def ngrams(self) -> tuple[int, int]:
        """How many n-grams the cache holds, and how many of them are seeds."""
        stats = self.cache.stats() if self.cache is not None else {"entries": 0, "seeded": 0}
        return stats["entries"], stats["seeded"]

    def close(self) -> None:
        self._closing.close()


def learner_of(state: RunState) -> RunLearner | None:
    """The app's own way of learning, where the run is to learn."""
    if not state.options.learning:
        return None
    from omnidraft.lab.learning import RunLearner

    return RunLearner(state)


def start(
    home: DataHome, folder: Path, schedule: Schedule, targets: Mapping[str, Path], drafter: Path,
    options: Options | None = None,
) -> DriftRun:  # fmt: skip
    """A new run below `folder`. targets: the model behind every name in the schedule.

    Raises SettingsError if a segment has too few prompts or a target is not given, StorageError for a bad file.
    """
    missing = [name for name in schedule.targets if name not in targets]
    if missing:
        raise SettingsError(f"The schedule's target {missing[0]} is not among the given models.")
    prompts = choose_prompts(schedule)
    store = RunStore(folder)
    state = store.create(schedule, targets, drafter, options or Options())
    return DriftRun(home, store, state, prompts)


def opened(home: DataHome, folder: Path, run: str) -> DriftRun:
    """A run that `start` made, in another process."""
    store = RunStore(folder)
    state = store.load(run)
    return DriftRun(home, store, state, choose_prompts(state.schedule))


class DriftRun:
    """One run. Iterate `events` once, in one thread; `stop` may be called from any."""

    def __init__(self, home: DataHome, store: RunStore, state: RunState, prompts: Sequence[Prompt]) -> None:
        self.state = state
        self._home = home
        self._store = store
        self._prompts = prompts
        self._stop = threading.Event()
        self._drafter: LlamaDrafter | None = None
        self._loaded: LoadedTarget | None = None
        self._adapter: Path | None = None
        self._learner: RunLearner | None = None

    @property
    def folder(self) -> Path:
        return self._store.run_folder(self.state.id)

    def stop(self) -> None:
        """End at once. The interrupted prompt does not count; the n-grams it has taught already stay."""
        self._stop.set()
        if (loaded := self._loaded) is not None:
            loaded.engine.cancel()

    def events(self, learner: RunLearner | None = None) -> Iterator[DriftEvent]:
        """Answer the prompts. Closing the generator stops the run."""
        if self.state.options.learning != (learner is not None):
            raise SettingsError("A run with learning needs a learner, and a run without has no use for one.")
        self._learner = learner
        status: Status = "failed"
        try:
            self._keep("running")
            status = yield from self._answered()
            self._keep(status)
            yield Ended(status)
        except GeneratorExit:
            status = "stopped" if self.state.done < self.state.total else "finished"
            raise
        finally:
            self._release()
            if self.state.status == "running":
                self._keep(status)

    def _answered(self) -> Generator[Loading | Step, None, Status]:
        """Points until the run ends; returns its status then."""
        while self.state.done < self.state.total:
            if self._stop.is_set():
                return "stopped"
            number, segment, first = self._place(self.state.done)
            if self._loaded is None or self._loaded.path != self._path(segment):
                yield Loading(number, segment.target)
                self._load(segment)
            point = self._point(number, segment, switch=first and number > 0)
            if point is None:
                return "stopped"
            self.state.points.append(point)
            self._keep("running")
            yield Step(point, self.state.done, self.state.total, seconds_left(self.state))
        return "finished"

    def _place(self, index: int) -> tuple[int, Segment, bool]:
        """(number, segment, whether it is the segment's first prompt) of a prompt of the run."""
        begin = 0
        for number, segment in enumerate(self.state.schedule.segments):
            if index < begin + segment.count:
                return number, segment, index == begin
            begin += segment.count
        raise IndexError(index)

    def _path(self, segment: Segment) -> Path:
        return Path(self.state.targets[segment.target])

    def _load(self, segment: Segment) -> None:
        """Take the segment's target in the place of the last one."""
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None
        options = self.state.options
        if self._drafter is None:
            self._drafter = LlamaDrafter.open(Path(self.state.drafter), ModelSettings(threads=options.threads))
        ngrams = self.folder / "ngrams.sqlite"
        self._loaded = LoadedTarget(self._path(segment), self._drafter, options, ngrams, self._home.cache)
        if self._learner is not None:
            self._serve(self._learner.switched(self.folder, self._loaded.engine, self._loaded.pair))

    def _ready(self) -> LoadedTarget:
        """The segment's target, which is loaded before its prompts are answered."""
        assert self._loaded is not None
        return self._loaded

    def _serve(self, adapter: Path | None) -> None:
        if adapter != self._adapter:
            assert self._drafter is not None
            self._drafter.set_adapter(str(adapter) if adapter else None)
            self._adapter = adapter

    def _point(self, number: int, segment: Segment, switch: bool) -> Point | None:
        """Answer the next prompt, with the drafter and perhaps plainly; None if the run was stopped meanwhile."""
        index, began = self.state.done, perf_counter()
        prompt, served = self._prompts[index], self._adapter
        found: dict[str, list[AnswerEvent]] = {}
        ways = ("drafting", "plain") if self.state.options.plain else ("drafting",)
        for way in ways if index % 2 else ways[::-1]:  # in turns, so that neither is always the warmer one
            found[way] = self._answer(prompt, way, index)
            if self._stop.is_set():
                return None
        loaded = self._ready()
        if loaded.cache is not None:
            loaded.cache.commit()
        if self._learner is not None:
            tokens = [event for event in found["drafting"] if isinstance(event, Token)]
            finished = found["drafting"][-1]
            assert isinstance(finished, Finished)  # as every answer ends
            self._serve(self._learner.answered(prompt, tokens, finished))
        entries, seeded = loaded.ngrams
        drafted, plain = record(found["drafting"]), record(found["plain"]) if "plain" in found else None
        speed, plain_speed = _speed(drafted), _speed(plain) if plain else None
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
            cache_entries=entries,
            cache_learned=entries - seeded,
            switch=switch,
            degenerate=drafted.degenerate,
            adapter="/".join(served.parts[-3:-1]) if served else None,
            seconds=perf_counter() - began,
        )  # fmt: skip

    def _answer(self, prompt: Prompt, way: str, index: int) -> list[AnswerEvent]:
        """All events of one answer from cold caches; cut short if the run is stopped."""
        options, loaded = self.state.options, self._ready()
        engine, drafting = loaded.engine, way == "drafting"
        settings: DraftSettings = draft_settings(options) if drafting else PLAIN
        memory: Memory = loaded.drafting if drafting else loaded.plain
        engine.forget()
        engine.memory = memory
        sampling = SamplingSettings.unfiltered(
            temperature=options.temperature, seed=options.seed + index, max_tokens=options.max_tokens
        )
        capture = self._learner.capture if self._learner is not None and drafting else 0
        events = []
        try:
            for event in engine.answer(AnswerRequest(prompt.messages, sampling, settings, capture=capture)):
                events.append(event)
                if self._stop.is_set():  # it may have come before the engine had begun
                    engine.cancel()
        except ModelError as error:
            raise ModelError(f"The prompt {prompt.id} cannot be answered. {error}") from error
        return events

    def _keep(self, status: Status) -> None:
        self.state.status = status
        self._store.save(self.state)

    def _release(self) -> None:
        loaded, self._loaded = self._loaded, None
        drafter, self._drafter, self._adapter = self._drafter, None, None
        try:
            if loaded is not None:
                loaded.close()
        finally:
            if drafter is not None:
                drafter.close()


def _speed(trace: Trace) -> float:
    return trace.tokens / trace.decode if trace.decode else 0.0
