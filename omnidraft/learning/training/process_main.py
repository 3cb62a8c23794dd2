"""The training process: `python -m omnidraft.learning.training.process_main`, jobs as JSON lines in, updates out.

torch lives and dies here. The app pauses it by stopping the whole process (SIGSTOP, or suspension on Windows), which
takes effect at once, inside any matrix product; so nothing here may hold a lock while it computes. A job that is done
may be followed by another; one that failed ends the process. It ends itself when stdin closes, that is when the app is
gone.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from omnidraft.errors import OmniDraftError
from omnidraft.learning.update import Job, State, Update
from omnidraft.processes import system
from omnidraft.storage.vault import take_keys

if TYPE_CHECKING:
    from omnidraft.learning.training.steps import Prepared


def main() -> int:
    """Works until the app goes away (exit code 2) or a job fails (1, a message for display)."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    line = sys.stdin.readline()
    if not line:
        return 2
    take_keys(line)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_hear, args=(lines,), daemon=True).start()
    _be_humble(Job.from_line(line))
    worker = Worker()
    while True:
        job = Job.from_line(line)
        if job.update.kind != "merge":
            _limit_threads(job)
        for update in worker.does(job):
            told.write(update.to_line())
        if update.outcome == "failed":
            return 1
        gc.collect()  # what the job read is not kept in memory
        line = lines.get()


class Worker:
    """Does job after job. What they share is read by the first that needs it, and the same comes of each without it."""

    def __init__(self) -> None:
        self._prepared: Prepared | None = None
        self._counted = 0.0  # processor seconds that were told

    def does(self, job: Job) -> Iterator[Update]:
        """The job's update, again whenever it got on; the last one has `ended`, or failed."""
        began, update = time.perf_counter(), job.update
        try:
            for update in self._phases(job):
                yield update
        except OmniDraftError as error:
            yield update.said("failed", str(error))
            return
        except MemoryError:
            yield update.said("failed", "there is not enough memory to train the drafter")
            return
        cpu, before = time.process_time(), self._counted
        self._counted = cpu
        yield replace(
            update, state=State.IDLE, ended=time.time(), seconds=time.perf_counter() - began, cpu_seconds=cpu - before,
            peak_mb=system.peak_memory() / 1e6,
        )  # fmt: skip

    def _phases(self, job: Job) -> Iterator[Update]:
        if job.update.kind == "merge":
            return _merge(job)
        from omnidraft.learning.training import worker  # brings torch: only now, when priority and threads are set

        self._prepared = self._prepared or worker.Prepared()
        return worker.run(job, self._prepared)


def _merge(job: Job) -> Iterator[Update]:
    from omnidraft.learning.adapters.files import write_merged

    assert job.start is not None
    assert job.merged is not None
    write_merged(Path(job.drafter), Path(job.start), Path(job.merged))
    yield job.update.said("published", "The drafter and what it learned are one file.")


def _be_humble(job: Job) -> None:
    """Lowest useful priority, and thread counts that libraries read from the environment when they load."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ[name] = "1"  # products in bfloat16 keep a program for each shape: 250 MB, for 3% of the time
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    system.lower_priority()
    system.give_back_memory(2 << 20)


def _limit_threads(job: Job) -> None:
    import torch

    torch.set_num_threads(job.threads)
    if torch.get_num_interop_threads() > 1:  # it can be set once
        torch.set_num_interop_threads(1)


def _hear(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(2)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
