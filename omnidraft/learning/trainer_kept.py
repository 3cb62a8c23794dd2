"""The training process between two jobs: kept for a while, for it has loaded its libraries and read the drafter.

That takes longer than many an update. It waits without computing, and goes when memory is wanted or the wait gets long.
When jobs begin is not known here, nor what they do.
"""

from __future__ import annotations

import threading
import time

import psutil

from omnidraft.learning.job import Job
from omnidraft.learning.trainer_process import OnEvent, TrainerProcess

SPARE = 0.2  # share of the machine's memory that must be free while a process only waits


class KeptTrainer:
    """At most one process. Methods may be called from any thread; those that end it leave one at work alone."""

    def __init__(self) -> None:
        self._process: TrainerProcess | None = None
        self._lock = threading.Lock()

    @property
    def process(self) -> TrainerProcess | None:
        """The process that waits for its next job."""
        process = self._process
        return process if process is not None and process.waiting else None

    def start(self, job: Job, on_event: OnEvent) -> TrainerProcess:
        """The process that waits does the job, if it may; else one that is started for it."""
        with self._lock:
            if (process := self._process) is not None and process.takes(job):
                process.begin(job, on_event)
                return process
            if process is not None:
                process.kill()
            self._process = TrainerProcess(job, on_event)
            return self._process

    def seconds_left(self, minutes: float) -> float | None:
        """Until a process that waits has waited `minutes`; None while none does."""
        process = self.process
        return None if process is None else max(0.0, process.free_since + 60 * minutes - time.monotonic())

    def look(self, minutes: float) -> None:
        """End a process that has waited `minutes`, or while memory is short."""
        if (left := self.seconds_left(minutes)) is not None and (left <= 0 or _memory_is_short()):
            self.let_go()

    def let_go(self) -> None:
        """End the process if it only waits."""
        with self._lock:
            if (process := self.process) is not None:
                process.kill()
                self._process = None


def _memory_is_short() -> bool:
    memory = psutil.virtual_memory()
    return memory.available < SPARE * memory.total
