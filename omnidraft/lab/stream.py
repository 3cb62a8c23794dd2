"""A drafter that learns as answers come: every few of them, one of the app's own updates, which is waited for.

The app trains when nobody waits; a benchmark or a drift run has nobody waiting. What is kept and what an update is of
and leads to is the app's store's, who trains is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from omnidraft.errors import ModelError
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.material.record import Pairing, Record
from omnidraft.learning.store import LearningStore
from omnidraft.learning.update import Job, Update
from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import LearningSettings
from omnidraft.storage.paths import ProfilePaths


class Stream(AbstractContextManager):
    """adapter: what to draft with, None for the bare drafter.

    folder: of all that is learned. does: trains, on so many `threads` (0: all there are). seed: the number of answers
    is added to it for each update's.
    """

    def __init__(
        self, folder: Path, settings: LearningSettings, does: Callable[[Job], Iterator[Update]], threads: int,
        seed: int = 0,
    ) -> None:  # fmt: skip
        percent = min(100, -(-100 * threads // physical_cores())) if threads else 100
        self._settings, self._does, self._seed = replace(settings, cpu_percent=percent), does, seed
        self._adapters = Adapters(folder / "adapters")
        self._store = LearningStore(ProfilePaths.inside(folder), folder, self._adapters)
        self.adapter: Path | None = None

    def pair(self, pairing: Pairing) -> None:
        """Learn for these vocabularies from now on; new ones start warm from the last."""
        choice = self._adapters.choose(pairing.choice.drafter, pairing.pair.target.fingerprint)
        self._store.pair(replace(pairing, choice=choice))
        self._store.tidy()
        self.adapter = choice.adapter

    def add(self, record: Record) -> Update | None:
        """Keep an answer; the update it brought about, if it did."""
        self._store.add(record)
        kept = self._store.counts
        return self._update() if kept.fresh >= kept.needed(self._settings.interval) else None

    def finish(self) -> Update | None:
        """One more update if there are answers behind the last one."""
        return self._update() if self._store.counts.fresh else None

    def _update(self) -> Update:
        """number: of the answers so far; seconds: waited for. ModelError if nothing comes of it."""
        began, pairing, answers = time.perf_counter(), self._store.pairing, self._store.counts.answers
        assert pairing is not None
        job = replace(self._store.begin(self._settings), seed=self._seed + answers)
        *_, update = self._does(job)
        if update.outcome not in ("published", "refused"):
            raise ModelError(update.reason)
        self._store.end(replace(job, update=update))
        self.pair(pairing)
        return replace(update, number=answers, seconds=time.perf_counter() - began)

    def __exit__(self, *_: object) -> None:
        self._store.close()
