"""Which of two versions serves the newest answers better: what a live rollback is decided on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from omnidraft.learning.training.answers import StoredAnswers
from omnidraft.learning.training.drafter import rank_of, read_weights
from omnidraft.learning.training.evaluate import Answers, Estimate, judge, means
from omnidraft.learning.training.prepared import Prepared
from omnidraft.learning.training_events import Compared
from omnidraft.learning.training_job import TrainingJob

COMPARED = 50  # recent answers


class Throttle:
    """Keeps the processor's share of the time at `duty` by sleeping after each piece of work."""

    def __init__(self, duty: float) -> None:
        self.duty, self._spent = duty, time.process_time()

    def rest(self) -> None:
        now = time.process_time()
        if self.duty < 1:
            time.sleep((now - self._spent) * (1 / self.duty - 1))
        self._spent = time.process_time()


def compare(job: TrainingJob, prepared: Prepared) -> Iterator[Compared]:
    """Estimate the served version (`start`) and the one before it (`other`) on the newest answers, held out or not.

    Training answers count too: neither version is spared them, and the question is which serves the present better.
    """
    answers = StoredAnswers(job)
    usable = [o for o, a in sorted(answers.index.items()) if a.vocabulary in job.tables]
    throttle, found = Throttle(job.duty), []
    slices = {"new": answers.windows(usable[-COMPARED:])}
    for path in (job.start, job.other):
        found.append(estimates_with(job, prepared, path, slices))
        throttle.rest()
    served, other = found
    yield Compared(judge(served, other).accepted, means(served), means(other))


def estimates_with(
    job: TrainingJob, prepared: Prepared, path: str | None, slices: Mapping[str, Answers]
) -> dict[str, Estimate]:
    """Estimates of the drafter with the weights at `path`, None: bare."""
    weights = read_weights(Path(path)) if path is not None else {}
    drafter = prepared.drafter(job, rank_of(weights) if weights else job.rank)
    if weights:
        drafter.load_weights(weights)
    return prepared.estimates(drafter, slices)
