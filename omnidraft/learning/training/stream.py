"""A drafter that learns from a stream of answers in this process: every few of them, one of the app's own updates.

The app trains in a process of its own when nobody waits; a benchmark or a drift run has nobody waiting. What an update
does, what it may publish and what a new vocabulary starts from are the app's in both. Neither targets nor caches are
known here.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers.utils import logging

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.versions import Version
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training import update as updating
from omnidraft.learning.training.prepared import Prepared
from omnidraft.learning.training_events import Estimated, Published, Refused
from omnidraft.learning.training_job import TrainingJob, update_job
from omnidraft.settings.config import LearningSettings


@dataclass(frozen=True)
class StreamUpdate:
    """What stands after an update. answers: the newest one's number; published: the gate let it through; version:
    served now; seconds, cpu: of this update; estimate: of the drafter before it, on held-out answers (`evaluate`)."""

    answers: int
    published: bool
    version: Version | None
    seconds: float
    cpu: float
    estimate: dict[str, float]


class StreamLearner:
    """Replay and versions live in `folder`, so that another process goes on where this one stopped.

    as_in_paper: every update is served and nothing is rehearsed (online distillation as published); else as in the app,
    where a gate judges each update and a refused one is trained on. threads: of torch, 0 for its own choice.
    """

    def __init__(
        self, folder: Path, drafter: Path, settings: LearningSettings, seed: int = 0, *,
        as_in_paper: bool = False, threads: int = 0,
    ) -> None:  # fmt: skip
        quiet_torch(threads)
        self.settings = replace(settings, rehearsal=0.0) if as_in_paper else settings
        self.replay = folder / "replay.sqlite"
        self.choice = Choice(drafter)
        self._drafter, self._seed, self._gated = drafter, seed, not as_in_paper
        self._adapters = Adapters(folder / "adapters", folder / "merged")
        self._vocabulary, self._target, self._tables = "", "", dict[str, str]()
        self._prepared = Prepared()

    def switched(self, vocabulary: str, target: str, tables: Mapping[str, str]) -> Choice:
        """Learn for this target vocabulary from now on; what to draft with.

        vocabulary: its fingerprint; tables: as in `TrainingJob`.
        """
        self._vocabulary, self._target, self._tables = vocabulary, target, dict(tables)
        self._choose()
        return self.choice

    def add(self, record: Record) -> StreamUpdate | None:
        """Keep an answer; the update it brought about, if it did."""
        with ReplayStore(self.replay, self.settings.replay_mb) as replay:
            ordinal = replay.add(record)
            number = replay.answers[ordinal].nth + 1
        return self._update(ordinal) if number % self.settings.interval == 0 else None

    def holds(self, chat: str) -> bool:
        """Whether an answer of this conversation is kept already."""
        if not self.replay.exists():
            return False
        with ReplayStore(self.replay, read_only=True) as replay:
            return any(answer.chat == chat for answer in replay.answers.values())

    def finish(self) -> StreamUpdate | None:
        """One more update if there are answers behind the last one."""
        with ReplayStore(self.replay, read_only=True) as replay:
            newest = max((o for o, a in replay.answers.items() if a.vocabulary == self._vocabulary), default=0)
        return self._update(newest) if newest > self.choice.learned_in.through else None

    def _choose(self) -> None:
        self.choice = self._adapters.choose(self._drafter, self._vocabulary, self.settings.scope)

    def _job(self, ordinal: int) -> TrainingJob:
        job = update_job(
            self.choice, self._vocabulary, self._target, self.settings, self.replay, self._tables, None,
            self._seed + ordinal,
        )  # fmt: skip
        return replace(job, gated=self._gated, cpu_percent=100)

    def _update(self, ordinal: int) -> StreamUpdate:
        seconds, cpu = time.perf_counter(), time.process_time()
        before, published, store = {}, False, self.choice.learned_in
        for event in updating.run(self._job(ordinal), self._prepared):
            if isinstance(event, Estimated) and event.when == "before":
                before = pooled(event.slices)
            elif isinstance(event, Refused):
                store.reject_update(event.through)
            published |= isinstance(event, Published)
        store.prune()
        self._choose()
        seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
        return StreamUpdate(ordinal, published, store.current(), seconds, cpu, before)


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
