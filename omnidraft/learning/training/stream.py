"""A drafter that learns from a stream of answers in this process: every few of them, one of the app's own updates.

The app trains in a process of its own when nobody waits; a benchmark or a drift run has nobody waiting. What an update
does, what it may publish and what a new vocabulary starts from are the app's in both; to tell what it costs, it may be
given the app's process. Neither targets nor caches are known here.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import torch
from transformers.utils import logging

from omnidraft.errors import ModelError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.versions import Version
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training import update as updating
from omnidraft.learning.training.steps import Prepared
from omnidraft.learning.training_job import (
    Ended,
    Estimated,
    Event,
    Failed,
    Finished,
    Published,
    Refused,
    TrainingJob,
    make_job,
)
from omnidraft.learning.training_process import TrainingProcess
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import LearningSettings


@dataclass(frozen=True)
class StreamUpdate:
    """What stands after an update. answers: the newest one's number; published: the gate let it through; version:
    served now; seconds, cpu: of this update; peak_mb: of the process that trains, if it is another, else 0; estimate:
    of the drafter before it, on held-out answers (`evaluate`)."""

    answers: int
    published: bool
    version: Version | None
    seconds: float
    cpu: float
    peak_mb: float
    estimate: dict[str, float]


class StreamLearner:
    """Replay and versions live in `folder`, so that another process goes on where this one stopped.

    threads: of torch, 0 for its own choice. process: trains; who gives it ends it.
    """

    def __init__(
        self, folder: Path, drafter: Path, settings: LearningSettings, seed: int = 0, *, threads: int = 0,
        process: TrainingProcess | None = None,
    ) -> None:  # fmt: skip
        quiet_torch(threads)
        self.settings = settings
        self.replay = folder / "replay.sqlite"
        self.choice = Choice(drafter)
        self._drafter, self._seed = drafter, seed
        self._adapters = Adapters(folder / "adapters", folder / "merged")
        self._vocabulary, self._target, self._tables = "", "", dict[str, str]()
        self._percent = min(100, -(-100 * threads // physical_cores())) if threads else 100
        self._does: Callable[[TrainingJob], Iterator[Event]] = (
            partial(updating.run, prepared=Prepared()) if process is None else partial(_elsewhere, process)
        )

    def switched(self, vocabulary: str, target: str, tables: Mapping[str, str]) -> Choice:
        """Learn for this target vocabulary from now on; what to draft with.

        vocabulary: its fingerprint; tables: as in `TrainingJob`.
        """
        self._vocabulary, self._target, self._tables = vocabulary, target, dict(tables)
        self._choose()
        return self.choice

    def add(self, record: Record) -> StreamUpdate | None:
        """Keep an answer; the update it brought about, if it did."""
        with ReplayStore(self.replay) as replay:
            ordinal = replay.add(record)
            number = replay.answers[ordinal].nth + 1
        return self._update(ordinal) if number % self.settings.interval == 0 else None

    def finish(self) -> StreamUpdate | None:
        """One more update if there are answers behind the last one."""
        with ReplayStore(self.replay, read_only=True) as replay:
            newest = max((o for o, a in replay.answers.items() if a.vocabulary == self._vocabulary), default=0)
        return self._update(newest) if newest > self.choice.learned_in.through else None

    def _choose(self) -> None:
        self.choice = self._adapters.choose(self._drafter, self._vocabulary)

    def _job(self, ordinal: int) -> TrainingJob:
        job = make_job(
            "update", self.choice, self._vocabulary, self._target, self.settings, self.replay, self._tables,
            seed=self._seed + ordinal,
        )  # fmt: skip
        return replace(job, cpu_percent=self._percent)

    def _update(self, ordinal: int) -> StreamUpdate:
        seconds, cpu = time.perf_counter(), time.process_time()
        before, published, told, store = {}, False, None, self.choice.learned_in
        for event in self._does(self._job(ordinal)):
            if isinstance(event, Estimated) and event.when == "before":
                before = pooled(event.slices)
            elif isinstance(event, Refused):
                store.reject_update(event.through)
            elif isinstance(event, Finished):
                told = event
            published |= isinstance(event, Published)
        store.prune()
        self._choose()
        seconds, cpu = time.perf_counter() - seconds, told.cpu_seconds if told else time.process_time() - cpu
        peak = told.peak_mb if told else 0.0
        return StreamUpdate(ordinal, published, store.current(), seconds, cpu, peak, before)


def _elsewhere(process: TrainingProcess, job: TrainingJob) -> Iterator[Event]:
    """The job's events, from the process that does it; ModelError if nothing comes of it."""
    told: SimpleQueue[Event] = SimpleQueue()
    process.start(job, told.put)
    while not isinstance(event := told.get(), Ended):
        if isinstance(event, Failed):
            raise ModelError(event.message)
        yield event
    if event.code:
        raise ModelError(f"The training process ended: {event.message or event.code}.")


def quiet_torch(threads: int) -> None:
    """Keep torch to its threads (0: its own choice), and transformers from drawing a bar for each of many loads."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    if threads:
        torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def pooled(slices: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Acceptance estimates over all held-out tokens, "old" and "new" together."""
    tokens = sum(part["tokens"] for part in slices.values())
    return {
        name: sum(part[name] * part["tokens"] for part in slices.values()) / tokens
        for name in ("greedy", "overlap")
        if tokens
    }
