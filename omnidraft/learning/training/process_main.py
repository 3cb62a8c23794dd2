"""The training process: `python -m omnidraft.learning.training.process_main`, a job as a JSON line in, its update out.

torch lives and dies here. The app pauses it by stopping the whole process (SIGSTOP, or suspension on Windows), which
takes effect at once, inside any matrix product; so nothing here may hold a lock while it computes. It ends with its
job, or when stdin closes, that is when the app is gone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from omnidraft.errors import OmniDraftError
from omnidraft.learning.update import Job, State, Update
from omnidraft.processes import system
from omnidraft.storage.vault import take_keys


def main() -> int:
    """0 for an update that is over, 1 for one that failed and says why, 2 without a job."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    line = sys.stdin.readline()
    if not line:
        return 2
    take_keys(line)
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    job = Job.from_line(line)
    _be_humble(job)
    _limit_threads(job)
    for update in does(job):
        told.write(update.to_line())
    return int(update.outcome == "failed")


def does(job: Job) -> Iterator[Update]:
    """The job's update, again whenever it got on; the last one has `ended`, or failed."""
    from omnidraft.learning.training import worker  # brings torch: only now, when priority and threads are set

    began, update = time.perf_counter(), job.update
    try:
        for update in worker.update(job):
            yield update
    except OmniDraftError as error:
        yield update.said("failed", str(error))
        return
    except MemoryError:
        yield update.said("failed", "there is not enough memory to train the drafter")
        return
    yield replace(
        update, state=State.IDLE, ended=time.time(), seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time(), peak_mb=system.peak_memory() / 1e6,
    )  # fmt: skip


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


def _end_with_the_app() -> None:
    sys.stdin.read()
    os._exit(2)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
