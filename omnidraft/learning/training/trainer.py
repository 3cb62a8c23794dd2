"""The training process: `python -m omnidraft.learning.training.trainer`, a job as a JSON line in, events as lines out.

torch lives and dies here. The app pauses it by stopping the whole process (SIGSTOP, or suspension on Windows), which
takes effect at once, inside any matrix product; so nothing here may hold a lock while it computes. It ends itself when
stdin closes, that is when the app is gone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from omnidraft import system
from omnidraft.errors import OmniDraftError
from omnidraft.learning.job import Job
from omnidraft.learning.trainer_events import Event, Failed, Finished
from omnidraft.vault import take_keys


def main() -> int:
    """Exit code 0 after finished, 1 after failed (a message for display), 2 if the app went away."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    line = sys.stdin.readline()
    if not line:
        return 2
    job = Job.from_line(line)
    take_keys(line)
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    _be_humble(job)
    emit = lambda event: events.write(event.to_line())  # noqa: E731
    began = time.perf_counter()
    try:
        if job.kind == "merge":
            from omnidraft.learning.adapters.merge import write_merged

            assert job.start is not None
            assert job.merged is not None
            write_merged(Path(job.drafter), Path(job.start), Path(job.merged))
        else:
            _learn(job, emit)
    except OmniDraftError as error:
        emit(Failed(str(error)))
        return 1
    except MemoryError:
        emit(Failed("there is not enough memory to train the drafter"))
        return 1
    emit(Finished(time.perf_counter() - began, time.process_time(), system.peak_memory() / 1e6))
    return 0


def _learn(job: Job, emit: Callable[[Event], object]) -> None:
    from omnidraft.learning.training.update import run  # imports torch: only now, when priority and threads are set

    _limit_threads(job)
    for event in run(job):
        emit(event)


def _be_humble(job: Job) -> None:
    """Lowest useful priority, and thread counts that libraries read from the environment when they load."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    system.lower_priority()


def _limit_threads(job: Job) -> None:
    import torch

    torch.set_num_threads(job.threads)
    torch.set_num_interop_threads(1)


def _end_with_the_app() -> None:
    sys.stdin.read()
    os._exit(2)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
