"""A drafter that learns from a stream of answers: every few of them, one of the app's own updates, which is waited for.

The app trains when nobody waits; a benchmark or a drift run has nobody waiting. What an update does, what it may
publish and what a new vocabulary starts from are the app's in both; to tell what it costs, it may be done by the app's
process. Neither targets nor caches are known here.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

import torch
from transformers.utils import logging

from omnidraft.errors import ModelError
from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training.process import TrainingProcess, does
from omnidraft.learning.update import Update, due_behind, plan, settle
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import LearningSettings


class StreamLearner:
    """Replay and versions live in `folder`, so that another process goes on where this one stopped.

    choice: what to draft with. threads: of torch, 0 for its own choice. process: trains; who gives it ends it.
    """

    def __init__(
        self, folder: Path, drafter: Path, settings: LearningSettings, seed: int = 0, *, threads: int = 0,
        process: TrainingProcess | None = None,
    ) -> None:  # fmt: skip
        quiet_torch(threads)
        percent = min(100, -(-100 * threads // physical_cores())) if threads else 100
        self._settings = replace(settings, cpu_percent=percent)
        self._replay, self._adapters = folder / "replay.sqlite", Adapters(folder / "adapters")
        self._drafter, self._seed = drafter, seed
        self._does = process.does if process is not None else does
        self.choice = Choice(drafter)

    def switched(self, vocabulary: str, target: str, table: Path) -> Choice:
        """Learn for this target vocabulary from now on; what to draft with.

        vocabulary: its fingerprint; table: as in `Job`.
        """
        self._vocabulary, self._target, self._table = vocabulary, target, table
        self.choice = self._adapters.choose(self._drafter, vocabulary)
        return self.choice

    def add(self, record: Record) -> Update | None:
        """Keep an answer; the update it brought about, if it did."""
        with ReplayStore(self._replay) as replay:
            ordinal = replay.add(record)
            known = [o for o, a in replay.answers.items() if a.vocabulary == self._vocabulary]
        fresh = sum(o > self.choice.learned_in.through for o in known)
        return self._update(ordinal) if fresh >= due_behind(len(known) - fresh, self._settings.interval) else None

    def finish(self) -> Update | None:
        """One more update if there are answers behind the last one."""
        with ReplayStore(self._replay) as replay:
            newest = max((o for o, a in replay.answers.items() if a.vocabulary == self._vocabulary), default=0)
        return self._update(newest) if newest > self.choice.learned_in.through else None

    def _update(self, ordinal: int) -> Update:
        """number: the newest answer's; seconds: waited for. ModelError if nothing comes of it."""
        began = time.perf_counter()
        update = Update(ordinal, time.time(), self._drafter.stem, self._target, self._vocabulary)
        job = plan(update, self.choice, self._settings, self._replay, self._table, seed=self._seed + ordinal)
        *_, update = self._does(job)
        if update.outcome not in ("published", "refused"):
            raise ModelError(update.reason)
        settle(self.choice.learned_in, update)
        self.switched(self._vocabulary, self._target, self._table)
        return replace(update, seconds=time.perf_counter() - began)


def quiet_torch(threads: int) -> None:
    """Keep torch to its threads (0: its own choice), and transformers from drawing a bar for each of many loads."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    if threads:
        torch.set_num_threads(threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
