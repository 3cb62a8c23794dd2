"""One run of the training process: built from what is loaded, and what its events say brought to the stores.

It knows nothing of processes, nor of when a run may begin or has to stop.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from omnidraft.learning.adapters.serving import Adapters, Choice
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import Version
from omnidraft.learning.facts import Update
from omnidraft.learning.material.capture import Pairing
from omnidraft.learning.material.open_stores import OpenStores
from omnidraft.learning.training_events import Compared, Ended, Event, Refused, advance, conclude
from omnidraft.learning.training_job import Kind, TrainingJob, make_job
from omnidraft.settings.config import LearningSettings

log = logging.getLogger("omnidraft.learning")


@dataclass
class TrainingRun:
    """One run of the training process. why: the reason this program ended it."""

    kind: Kind
    pairing: Pairing
    job: TrainingJob
    update: Update | None = None
    why: str | None = None

    @property
    def store(self) -> AdapterStore:
        return self.pairing.choice.learned_in

    def doing(self) -> str:
        """What the process does, in a sentence."""
        if self.kind == "merge":
            return "Writing the drafter and what it learned as one file."
        if self.kind == "compare":
            return "Comparing the served version with the one before."
        assert self.update is not None
        return f"Training on {self.update.answers_new} new and {self.update.answers_replayed} earlier answers."


class TrainingRuns:
    """Prepares runs and follows them; history, stores and replay hear what came of them."""

    def __init__(self, keeping: OpenStores, adapters: Adapters) -> None:
        self._keeping, self._adapters = keeping, adapters

    def prepare(
        self, kind: Kind, pairing: Pairing, settings: LearningSettings, tables: dict[str, str], *, asked: bool = False
    ) -> TrainingRun:  # fmt: skip
        """A run whose process is not started yet; an update is in the history from now on. asked: by the user."""
        (replay, history), choice = self._keeping.files, pairing.choice
        number = history.next_number()
        job = make_job(
            kind, choice, pairing.pair.target.fingerprint, pairing.target, settings, replay.path, tables,
            self._adapters.merged, number, asked=asked,
        )  # fmt: skip
        if kind != "update":
            return TrainingRun(kind, pairing, job)
        update = Update(number, time.time(), pairing.choice.drafter.stem, pairing.target, job.vocabulary)
        history.save(self._adapters.store_name(choice.learned_in), update)
        return TrainingRun(kind, pairing, job, update)

    def follow(self, run: TrainingRun, event: Event) -> None:
        """Take in what the process says while it runs."""
        if run.update is not None:
            run.update = advance(run.update, event)
        if isinstance(event, Refused):
            run.store.reject_update(event.through)
        elif isinstance(event, Compared) and event.other_is_better:
            why = "Rolled back: what was served before accepts more of the last answers."
            self.roll_back(run.store, run.pairing.choice.version, why)

    def conclude(self, run: TrainingRun, event: Ended) -> None:
        """Take in that the job is over."""
        if run.update is not None:
            run.update = conclude(run.update, event, run.why)
            _, history = self._keeping.files
            history.save(self._adapters.store_name(run.store), run.update)
            run.store.prune()

    def go_back(self, store: AdapterStore, served: Version) -> str:
        """Roll back because the user wants it. Returns a sentence."""
        before, now = self.roll_back(store, served, "Rolled back by you.")
        what = f"{now.name} is served" if now else "The drafter as it came is served"
        return f"{what} from the next answer on; {before.name if before else 'the last one'} is not used again."

    def choose(self, now: Choice, version: str | None, warm: bool) -> str:
        """Serve what the user chose in place of what is served `now`. Returns a sentence."""
        chosen = now.learned_in.choose(version, warm)
        if now.origin == "own" and now.version is not None and self._keeping.history is not None:
            why = f"Left by you for {chosen.name if chosen else 'what it learned elsewhere' if warm else 'none'}."
            self._keeping.history.add_reason(self._adapters.store_name(now.learned_in), now.version.name, why)
        what = "What it learned for another vocabulary" if warm else "The drafter as it came"
        return f"{f'Version {chosen.number}' if chosen else what} is served from the next answer on."

    def roll_back(self, store: AdapterStore, before: Version | None, why: str) -> tuple[Version | None, Version | None]:
        """What was served (`before`) and what is served now; the history says why."""
        now = store.rollback(before)
        if before is not None:
            log.info("%s: %s", before.name, why)
            if self._keeping.history is not None:
                self._keeping.history.add_reason(self._adapters.store_name(store), before.name, why)
        return before, now
