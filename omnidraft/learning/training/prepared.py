"""What job after job on one drafter needs of the drafter itself, so that one process reads it once.

What comes of a job is the same with a new one: the adapter that the last job trained lies here only until the drafter
is given out again, which makes it anew.
"""

from __future__ import annotations

from pathlib import Path

from omnidraft.learning.training.batches import Window
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.evaluate import Estimator
from omnidraft.learning.training.steps import SETS, drawn_once
from omnidraft.learning.training_job import TrainingJob


class Prepared:
    """The drafter of the last job, what it has drawn, and estimates of it; of one only, for they take memory."""

    def __init__(self) -> None:
        self.estimates = Estimator()
        self._drafter: TorchDrafter | None = None
        self._texts: dict[int, list[Window]] = {}
        self._of: tuple[str, str, int] | None = None
        self._replay = ""  # whose answers the estimates are of: other stores count from one as well

    def drafter(self, job: TrainingJob, rank: int) -> TorchDrafter:
        """The job's drafter with an adapter of this rank that changes nothing, as the job's seed draws it."""
        wanted = job.drafter, job.fingerprint, rank
        if job.replay != self._replay:
            self._replay, self.estimates = job.replay, Estimator()
        if self._drafter is not None and wanted == self._of:
            self._drafter.renew(job.seed)
        else:
            self._drafter, self._texts, self.estimates = None, {}, Estimator()  # before another is read
            self._drafter, self._of = TorchDrafter(Path(job.drafter), rank, seed=job.seed), wanted
        return self._drafter

    def texts(self, job: TrainingJob, drafter: TorchDrafter) -> list[Window]:
        """What the job rehearses; `drafter`: as given out last."""
        number = job.seed % SETS
        if number not in self._texts:
            self._texts[number] = drawn_once(drafter, number, Path(job.store).parent).windows()
        return self._texts[number]
