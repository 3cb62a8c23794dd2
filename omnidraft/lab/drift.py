"""Drift: how acceptance falls when the task or the target changes, and how it comes back.

A `DriftRun` answers the prompts of a schedule one after another and yields a point per prompt. No prompt occurs twice,
every answer starts from cold KV caches, and the n-gram cache is the run's own. Where the drafter learns, the app's own
learner captures, trains and judges. Knows nothing of pages and plots.

`python -m omnidraft.lab.drift DATA_HOME FOLDER` does a run for the app, whose memory so stays free of torch and of the
run's models: the plan comes as a line of JSON on stdin, points leave as lines on stdout, and it ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.decoding.events import Event as AnswerEvent
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.errors import ModelError, OmniDraftError, SettingsError
from omnidraft.lab.prompts import TASKS, Prompt, in_turn, load_prompts
from omnidraft.lab.statistics import record
from omnidraft.learning.material.record import CAPTURE, Answered, Pairing, record_of
from omnidraft.learning.material.replay import table_file
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import CacheSettings, DraftSettings, LearningSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.storage.trial import TRIALS
from omnidraft.storage.vault import take_keys
from omnidraft.vocab import NgramCache, PairMap, Translator

if TYPE_CHECKING:
    from omnidraft.learning.training.stream import StreamLearner

# What a run asks of whom: segments of prompts, with the target or the task changing between them. The bundled schedules
# follow the paper's Figures 5 and 6: a step from one task to another with one target, and a target that leaves and
# comes back, within a vocabulary family (a, a2, a) and across two (a, b, a).


MIXED = "mixed"  # the bundled tasks in turn
MAX_PROMPTS = 100_000
_A, _A2, _B = "tiny-target-a", "tiny-target-a2", "tiny-target-b"


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` prompts of one source (a task, "mixed", or a prompt file) put to one target (a name or a path)."""

    target: str
    prompts: str
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_PROMPTS:
            raise SettingsError(f"The number of prompts must be a whole number from 1 to {MAX_PROMPTS:,}.")

    @property
    def task(self) -> str:
        """What to call the prompts in tables."""
        return self.prompts if self.prompts in (*TASKS, MIXED) else Path(self.prompts).stem


@dataclass(frozen=True, slots=True)
class Schedule:
    """The segments of a run, in order."""

    name: str
    segments: tuple[Segment, ...]

    @property
    def total(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def targets(self) -> list[str]:
        """Every target once, in order of appearance."""
        return list(dict.fromkeys(segment.target for segment in self.segments))

    def changed(
        self, count: int | None = None, prompts: str | None = None, targets: Sequence[str] | None = None
    ) -> Schedule:
        """The same schedule with another number, or another source, of prompts in every segment, or other targets in
        the order they appear; SettingsError if that takes another number of them."""
        targets = self.targets if targets is None else targets
        if len(targets) != len(self.targets):
            raise SettingsError(f"The schedule {self.name} has {len(self.targets)} targets, not {len(targets)}.")
        other = dict(zip(self.targets, targets, strict=True))
        changed = (
            Segment(other[s.target], s.prompts if prompts is None else prompts, s.count if count is None else count)
            for s in self.segments
        )
        return replace(self, segments=tuple(changed))


def _schedule(name: str, *segments: tuple[str, str]) -> Schedule:
    return Schedule(name, tuple(Segment(target, source, 40) for target, source in segments))


BUNDLED = {
    schedule.name: schedule
    for schedule in (
        _schedule("step", (_A, "math"), (_A, "code")),
        _schedule("a-a2-a", (_A, MIXED), (_A2, MIXED), (_A, MIXED)),
        _schedule("a-b-a", (_A, MIXED), (_B, MIXED), (_A, MIXED)),
        _schedule("a-a-a", (_A, MIXED), (_A, MIXED), (_A, MIXED)),  # no switch: what the prompts alone do
    )
}


def choose_prompts(schedule: Schedule) -> list[Prompt]:
    """The prompt of every step; no text occurs twice, whatever its source (a repeated prompt flatters caches).

    SettingsError if a source has too few left.
    """
    left: dict[str, list[Prompt]] = {}
    seen: set[str] = set()
    chosen: list[Prompt] = []
    for number, segment in enumerate(schedule.segments, 1):
        pool = left.setdefault(segment.prompts, _source(segment.prompts)[::-1])
        found: list[Prompt] = []
        while pool and len(found) < segment.count:
            prompt = pool.pop()
            if prompt.plain not in seen:
                seen.add(prompt.plain)
                found.append(prompt)
        if len(found) < segment.count:
            raise SettingsError(
                f"Segment {number} asks for {segment.count} prompts of {segment.task}, but only {len(found)} are left; "
                "no prompt is used twice in a run."
            )
        chosen += found
    return chosen


def _source(name: str) -> list[Prompt]:
    return in_turn(map(load_prompts, TASKS)) if name == MIXED else load_prompts(name)


# The run.


LEARNING = LearningSettings(interval=8)  # answers of an update: a run is short
DRAFTING = DraftSettings(mode="fixed", length=4)  # what is accepted of drafts of one length can be compared


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do. targets: file or folder of every target the schedule names. SettingsError if one is missing
    or a segment has too few prompts, StorageError for a bad file of prompts."""

    schedule: Schedule
    targets: dict[str, str]
    drafter: str
    learning: bool = False
    max_tokens: int = 64
    threads: int = 0

    def __post_init__(self) -> None:
        missing = [name for name in self.schedule.targets if name not in self.targets]
        if missing:
            raise SettingsError(f"The schedule's target {missing[0]} is not among the given models.")
        choose_prompts(self.schedule)
        ModelSettings(threads=self.threads)
        SamplingSettings(max_tokens=self.max_tokens)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Of the text of `asdict`."""
        data = json.loads(text)
        given = data.pop("schedule")
        schedule = Schedule(given["name"], tuple(Segment(**segment) for segment in given["segments"]))
        return cls(schedule, **{name: data[name] for name in cls.__slots__ if name in data})


@dataclass(frozen=True, slots=True)
class Point:
    """One answered prompt.

    index counts from 0 over the run, segment from 0. Counts end where an answer begins to loop. decode: seconds of the
    rounds, prefill excluded. cache_learned: n-grams in the cache afterwards, without those of its seed. switch: the
    first prompt of a later segment. adapter: what was drafted with. seconds: wall time, training included. interrupted:
    whether it stood still for somebody meanwhile, so that neither time says anything.
    """

    index: int
    segment: int
    target: str
    task: str
    prompt: str
    proposed: int
    accepted: int
    tokens: int
    passes: int
    decode: float
    cache_learned: int
    switch: bool
    adapter: str | None
    seconds: float
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Loading:
    """Models are being loaded for a segment."""

    target: str


# The models of a run: one target at a time beside the drafter, and the run's own n-gram cache. Each vocabulary pair has
# its table in the run's cache file, so a target that comes back finds what it left behind, and targets of one family
# share theirs. Nothing of a profile's is read or changed.


class LoadedTarget:
    """A target with the drafter and the cache of their pair. Close it before the next one is loaded.

    pairing: what answers are learned with; adapter: what is drafted with, None for the bare drafter.
    """

    pairing: Pairing | None = None
    adapter: Path | None = None

    def __init__(self, target: Path, drafter: LlamaDrafter, threads: int, ngrams: Path, maps: Path) -> None:
        self._drafter = drafter
        with ExitStack() as opening:
            model = open_target(target, ModelSettings(threads=threads))
            opening.callback(model.close)
            self.pair = PairMap.build(drafter.vocabulary, model.vocabulary, maps)
            self.cache = NgramCache.open(ngrams, self.pair, CacheSettings())
            opening.callback(self.cache.close)
            self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
            drafter.rewind(0)
            drafter.set_adapter(None)
            self.template = ChatTemplate.from_model(drafter.info, drafter.vocabulary)
            self.engine.pair_drafter(drafter, self.template, Translator(self.pair, self.cache))
            self._closing = opening.pop_all()

    def serve(self, adapter: Path | None) -> None:
        if adapter != self.adapter:
            self._drafter.set_adapter(str(adapter) if adapter else None)
            self.adapter = adapter

    def close(self) -> None:
        self._closing.close()


class DriftRun:
    """`folder` is the run's own: its n-gram cache, and what it learns. Iterate `events` once, in one thread; `stop` may
    be called from any."""

    def __init__(self, home: DataHome, folder: Path, plan: Plan) -> None:
        self.plan, self._home, self._folder = plan, home, folder
        self._prompts = choose_prompts(plan.schedule)
        self._stop = threading.Event()
        self._loaded: LoadedTarget | None = None
        self._learner: StreamLearner | None = None

    def stop(self) -> None:
        """End at once. The interrupted prompt does not count."""
        self._stop.set()
        if (loaded := self._loaded) is not None:
            loaded.engine.cancel()

    def events(self) -> Iterator[Loading | Point]:
        """Answer the prompts until the run is over, or stopped. Closing the generator stops it."""
        plan, segments = self.plan, self.plan.schedule.segments
        places = [(number, one, place) for number, one in enumerate(segments) for place in range(one.count)]
        drafter = LlamaDrafter.open(Path(plan.drafter), ModelSettings(threads=plan.threads))
        with closing(drafter), ExitStack() as models:
            for index, ((number, segment, place), prompt) in enumerate(zip(places, self._prompts, strict=True)):
                if place == 0 and (number == 0 or segment.target != segments[number - 1].target):
                    yield Loading(segment.target)
                    models.close()
                    self._loaded = models.enter_context(closing(self._load(segment, drafter)))
                assert self._loaded is not None
                point = self._point(self._loaded, index, number, segment, prompt, switch=number > 0 and place == 0)
                if point is None:
                    return
                yield point

    def _load(self, segment: Segment, drafter: LlamaDrafter) -> LoadedTarget:
        """The segment's target. Where the run learns, with what its vocabulary has learned; a new one starts warm from
        the last."""
        plan = self.plan
        target, ngrams = Path(plan.targets[segment.target]), self._folder / "ngrams.sqlite"
        loaded = LoadedTarget(target, drafter, plan.threads, ngrams, self._home.cache)
        if plan.learning:
            from omnidraft.learning.training.stream import StreamLearner  # brings torch

            self._learner = self._learner or StreamLearner(
                self._folder, Path(plan.drafter), LEARNING, threads=plan.threads
            )
            name, table = loaded.engine.target.model.name, table_file(self._folder, loaded.pair)
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
        request = AnswerRequest(prompt.messages, SamplingSettings(temperature=0.0), source=prompt.id)
        tokens = [event for event in events if isinstance(event, Token)]
        if (made := record_of(Answered(request, tokens, finished), loaded.pairing)) is not None:
            self._learner.add(made)
        loaded.serve(self._learner.choice.adapter)

    def _point(
        self, loaded: LoadedTarget, index: int, number: int, segment: Segment, prompt: Prompt, switch: bool
    ) -> Point | None:
        """Answer a prompt; None if the run was stopped meanwhile."""
        began, served = perf_counter(), loaded.adapter
        events = self._answer(loaded, prompt)
        if self._stop.is_set():
            return None
        loaded.cache.commit()
        cached = loaded.cache.stats()
        self._learn(loaded, prompt, events)
        trace = record(events)
        return Point(
            index, number, segment.target, prompt.task or segment.task, prompt.id,
            proposed=trace.proposed,
            accepted=trace.accepted,
            tokens=trace.tokens,
            passes=len(trace.rounds),
            decode=trace.decode,
            cache_learned=cached["entries"] - cached["seeded"],
            switch=switch,
            adapter="/".join(served.parts[-3:-1]) if served else None,
            seconds=perf_counter() - began,
        )  # fmt: skip

    def _answer(self, loaded: LoadedTarget, prompt: Prompt) -> list[AnswerEvent]:
        """All events of one answer from cold caches; cut short if the run is stopped."""
        engine = loaded.engine
        engine.forget()
        sampling = SamplingSettings.unfiltered(temperature=0.0, max_tokens=self.plan.max_tokens)
        request = AnswerRequest(prompt.messages, sampling, DRAFTING, capture=CAPTURE if self.plan.learning else 0)
        events = []
        try:
            for event in engine.answer(request):
                events.append(event)
                if self._stop.is_set():  # it may have come before the engine had begun
                    engine.cancel()
        except ModelError as error:
            raise ModelError(f"The prompt {prompt.id} cannot be answered. {error}") from error
        return events


def main(home: Path, folder: Path) -> int:
    """Exit code 0 if the run ended as it should, 1 after {"failed": sentence}."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    try:
        asked = sys.stdin.readline()
        take_keys(asked)
        TRIALS.keep_in(DataHome(home).cache)
        run = DriftRun(DataHome(home), folder, Plan.from_json(asked))
        threading.Thread(target=_listen, args=(run,), daemon=True).start()
        for event in run.events():
            print(json.dumps(asdict(event)), file=events)
    except OmniDraftError as error:
        print(json.dumps({"failed": str(error)}), file=events)
        return 1
    return 0


def _listen(run: DriftRun) -> None:
    """A line asks to stop, as does the end of whoever wrote it."""
    sys.stdin.readline()
    run.stop()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
