"""Drift: how acceptance falls when the task or the target changes, and how it comes back.

A `DriftRun` answers the prompts of a schedule one after another and yields a point per prompt. No prompt occurs twice,
every answer starts from cold KV caches, and the n-gram cache is the run's own. Where the drafter learns, it
does as in the app. Knows nothing of pages and plots.

`python -m omnidraft.lab.drift DATA_HOME FOLDER` does a run for the app, whose memory so stays free of torch and of the
run's models: the plan comes as a line of JSON on stdin, points leave as lines on stdout, and it ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

from omnidraft.decoding.events import Event as AnswerEvent
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError, OmniDraftError, SettingsError
from omnidraft.lab.experiment import FIXED, Began, Interrupted, Pair, Said, Turn, experiment, material
from omnidraft.lab.prompts import TASKS, Prompt, in_turn, load_prompts
from omnidraft.lab.stream import Stream
from omnidraft.learning.material.record import CAPTURE
from omnidraft.learning.training.process import does
from omnidraft.settings.config import LearningSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import DataHome
from omnidraft.storage.vault import take_keys

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
        return Path(self.prompts).stem


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


class DriftRun:
    """`folder` is the run's own: its n-gram cache, and what it learns; nothing of a profile's is read or changed. One
    target at a time is loaded, and each pair of vocabularies has its table in the run's cache: a target that comes back
    finds what it left behind, and targets of one family share theirs. Iterate `events` once, in one thread; `stop` may
    be called from any."""

    def __init__(self, home: DataHome, folder: Path, plan: Plan) -> None:
        self.plan, self._home, self._folder = plan, home, folder
        self._prompts = choose_prompts(plan.schedule)
        self._segments = [n for n, one in enumerate(plan.schedule.segments) for _ in range(one.count)]  # each prompt's
        self._stop = threading.Event()
        self._pair: Pair | None = None
        self._learner = Stream(folder, LEARNING, does, plan.threads) if plan.learning else None

    def stop(self) -> None:
        """End at once. The interrupted prompt does not count."""
        self._stop.set()
        if (pair := self._pair) is not None:
            pair.engine.cancel()

    def events(self) -> Iterator[Loading | Point]:
        """Answer the prompts until the run is over, or stopped. Closing the generator stops it."""
        before, said = None, list[AnswerEvent]()
        with ExitStack() as models, self._learner or nullcontext():
            for event in experiment((FIXED,), self._prompts, self._ask, self._stop.is_set):
                if isinstance(event, Interrupted):
                    return
                if isinstance(event, Began) and (target := self._segment(event.number).target) != before:
                    yield Loading(target)
                    models.close()
                    self._pair = models.enter_context(self._loaded(target))
                    if self._learner is not None:
                        self._learner.pair(self._pair.pairing)
                        self._pair.serve(self._learner.adapter)
                    before = target
                elif isinstance(event, Said):
                    said.append(event.event)
                elif isinstance(event, Turn):
                    yield self._point(event, said)
                    said.clear()

    def _segment(self, index: int) -> Segment:
        return self.plan.schedule.segments[self._segments[index]]

    def _loaded(self, target: str) -> Pair:
        plan, model = self.plan, ModelSettings(threads=self.plan.threads)
        return Pair(self._home, Path(plan.targets[target]), Path(plan.drafter), model, self._folder / "ngrams.sqlite")

    def _ask(self, way: str, _number: int, prompt: Prompt) -> Generator[AnswerEvent, None, None]:
        assert self._pair is not None
        try:
            yield from self._pair.answer(way, self._request(prompt))
        except ModelError as error:
            raise ModelError(f"The prompt {prompt.id} cannot be answered. {error}") from error

    def _request(self, prompt: Prompt) -> AnswerRequest:
        sampling = SamplingSettings.unfiltered(temperature=0.0, max_tokens=self.plan.max_tokens)
        return AnswerRequest(prompt.messages, sampling, source=prompt.id, capture=CAPTURE if self.plan.learning else 0)

    def _point(self, turn: Turn[str], said: Sequence[AnswerEvent]) -> Point:
        """What an answer came to, and what is learned from it."""
        assert self._pair is not None
        pair, index, segment = self._pair, turn.number, self._segment(turn.number)
        began, served, cached = perf_counter(), pair.adapter, pair.cache.stats()
        if self._learner is not None:
            if (made := material(self._request(turn.prompt), said, pair.pairing)) is not None:
                self._learner.add(made)
            pair.serve(self._learner.adapter)
        trace = turn.traces[FIXED]
        return Point(
            index, self._segments[index], segment.target, turn.prompt.task or segment.task, turn.prompt.id,
            proposed=trace.proposed,
            accepted=trace.accepted,
            tokens=trace.tokens,
            passes=trace.passes,
            decode=trace.decode,
            cache_learned=cached["entries"],
            switch=index > 0 and self._segments[index] != self._segments[index - 1],
            adapter="/".join(served.parts[-3:-1]) if served else None,
            seconds=turn.took[FIXED] + perf_counter() - began,
        )  # fmt: skip


def main(home: Path, folder: Path) -> int:
    """Exit code 0 if the run ended as it should, 1 after {"failed": sentence}."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    try:
        asked = sys.stdin.readline()
        take_keys(asked)
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
