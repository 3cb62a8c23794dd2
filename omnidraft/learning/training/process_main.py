"""The training process: `python -m omnidraft.learning.training.process_main`, jobs as JSON lines in, events out.

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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from omnidraft.errors import OmniDraftError
from omnidraft.learning.training_job import Event, Failed, Finished, TrainingJob
from omnidraft.processes import system
from omnidraft.storage.vault import take_keys


def main() -> int:
    """Works until the app goes away (exit code 2) or a job fails (1, a message for display)."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    line = sys.stdin.readline()
    if not line:
        return 2
    take_keys(line)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_hear, args=(lines,), daemon=True).start()
    _be_humble(TrainingJob.from_line(line))
    worker = Worker(lambda event: events.write(event.to_line()))
    while worker.does(TrainingJob.from_line(line)):
        gc.collect()  # what the job read is not kept in memory
        line = lines.get()
    return 1


class Worker:
    """Does job after job and says so; what jobs share is read by the first that needs it (`training.prepared`)."""

    def __init__(self, emit: Callable[[Event], object]) -> None:
        self._emit, self._counted = emit, 0.0
        self._run: Callable[[TrainingJob], Iterator[Event]] | None = None

    def does(self, job: TrainingJob) -> bool:
        """Whether it went well; a process in which it did not does nothing more."""
        began = time.perf_counter()
        try:
            if job.kind == "merge":
                _merge(job)
            else:
                self._run = self._run or _learning(job)
                for event in self._run(job):
                    self._emit(event)
        except OmniDraftError as error:
            self._emit(Failed(str(error)))
            return False
        except MemoryError:
            self._emit(Failed("there is not enough memory to train the drafter"))
            return False
        cpu, before = time.process_time(), self._counted
        self._counted = cpu
        self._emit(Finished(time.perf_counter() - began, cpu - before, system.peak_memory() / 1e6))
        return True


def _merge(job: TrainingJob) -> None:
    from omnidraft.learning.adapters.files import write_merged

    assert job.start is not None
    assert job.merged is not None
    write_merged(Path(job.drafter), Path(job.start), Path(job.merged))


def _learning(job: TrainingJob) -> Callable[[TrainingJob], Iterator[Event]]:
    """`update.run`, which imports torch: only now, when priority and threads are set."""
    from omnidraft.learning.training.steps import Prepared
    from omnidraft.learning.training.update import run

    _limit_threads(job)
    return partial(run, prepared=Prepared())


def _be_humble(job: TrainingJob) -> None:
    """Lowest useful priority, and thread counts that libraries read from the environment when they load."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    system.lower_priority()
    system.give_back_memory(2 << 20)


def _limit_threads(job: TrainingJob) -> None:
    import torch

    torch.set_num_threads(job.threads)
    torch.set_num_interop_threads(1)


def _hear(lines: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(2)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
