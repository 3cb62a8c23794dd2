"""The training process, from both sides. The app starts it with a job and stops it for answers; `python -m
omnidraft.learning.training.process` reads jobs, a JSON line each, and says their updates.

torch lives there alone. The app pauses it by stopping the whole process (SIGSTOP, or suspension on Windows), which
takes effect at once, inside any matrix product; so nothing there may hold a lock while it computes. It ends when no
other job comes for a while, memory is short behind one, or stdin closes, that is when the app is gone. What is trained,
and when, is not known here.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

import psutil

from omnidraft.errors import OmniDraftError
from omnidraft.learning.update import Job, State, Update
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.storage.vault import take_keys, with_keys

MODULE = "omnidraft.learning.training.process"
PARTS = ("replay", "adapters")  # what training reads and writes of an encrypted profile
KEPT_SECONDS = 900.0  # that it waits for another job: to load its libraries takes seconds of the processor
SPARE = 0.2  # share of the machine's memory without which it does not wait


class TrainingProcess(AbstractContextManager):
    """At most one process, which does one job at a time. Methods may be called from any thread.

    A job's update comes from a thread of this object's, again whenever it got on; the last one has `ended`. The child
    leads a process group of its own in our session: if we are killed while it is stopped, the system wakes and ends it
    (an orphaned group with stopped members gets SIGHUP and SIGCONT); if it runs, it notices that stdin closed.
    """

    def __init__(self) -> None:
        self.paused = False
        self._child: LineChild | None = None
        self._reader = threading.Thread()
        self._at_work: tuple[Update, Callable[[Update], object]] | None = None  # what it said last, and to whom
        self._heard_out = True  # whether it has ended, and all it said was heard
        self._belongs: tuple[str, int] | None = None  # profile and threads of the job it was started with
        self._why = ""  # it was ended
        self._lock = threading.Lock()
        self._changing = threading.Lock()  # held while a job begins, or the process goes because it has none

    @property
    def pid(self) -> int | None:
        """Of the process, at work or waiting; None while there is none."""
        return self._child.pid if self._child is not None and self._child.running else None

    def memory_mb(self) -> float | None:
        """That it has resident."""
        if (pid := self.pid) is not None:
            with suppress(psutil.Error):
                return round(psutil.Process(pid).memory_info().rss / 1e6, 1)
        return None

    def start(self, job: Job, tell: Callable[[Update], object]) -> None:
        """In the process that waits, if it was started for the same profile and threads; else in the place of it."""
        belongs = job.store, job.threads
        with self._changing:
            with self._lock:
                waits = self._at_work is None and not self._heard_out and belongs == self._belongs
                if waits:
                    self._at_work = job.update, tell
            if not waits or self._child is None:
                self.kill()
                self._at_work, self._heard_out, self._belongs, self._why = (job.update, tell), False, belongs, ""
                self._child = LineChild(MODULE)
                self._reader = threading.Thread(target=self._read, args=(self._child,), name="training", daemon=True)
                self._reader.start()
            self.resume()  # an answer may have begun just when the job before was over
            self._child.say(with_keys(job.to_line(), Path(job.store), PARTS))

    def does(self, job: Job) -> Iterator[Update]:
        """The job's update, again whenever it got on, for who waits for it; the last one has `ended`."""
        told: SimpleQueue[Update] = SimpleQueue()
        self.start(job, told.put)
        while (update := told.get()).ended is None:
            yield update
        yield update

    def pause(self) -> None:
        """Stop it where it is; takes effect within a millisecond or so and costs the caller microseconds."""
        with self._lock:
            if not self.paused and (pid := self.pid) is not None:
                system.suspend(pid)
                self.paused = True

    def resume(self) -> None:
        with self._lock:
            if self.paused and (pid := self.pid) is not None:
                system.resume(pid)
            self.paused = False

    def kill(self, why: str = "") -> None:
        """End it at once; what it has not published is lost, nothing else. Returns when its memory is released. why:
        the reason, for the update it was at; the first one counts."""
        if self._child is not None:
            self._why = self._why or why
            self._child.kill()
            self._reader.join()
            self.paused = False

    def __exit__(self, *_: object) -> None:
        self.kill()

    def let_go(self) -> None:
        """End the process if it only waits."""
        with self._changing:
            if self._at_work is None:
                self.kill()

    def _read(self, child: LineChild) -> None:
        for line in child.lines():
            if (update := Update.from_line(line)) is not None:
                self._hear(update)
        code, words = child.ended(), child.last_words().splitlines()
        with self._lock:
            self._heard_out, at_work = True, self._at_work
        if at_work is not None:
            self._hear(at_work[0].concluded(code, words[-1] if code and words else "", self._why))

    def _hear(self, update: Update) -> None:
        if self._at_work is not None:
            _, tell = self._at_work
            self._at_work = (update, tell) if update.ended is None else None
            tell(update)


# The process itself.


def main() -> int:
    """0 when no job came for a while or memory is short, 1 behind an update that failed and says why."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_hand_on, args=(lines,), daemon=True).start()
    spent = 0.0
    while True:
        try:
            take_keys(line := lines.get(timeout=KEPT_SECONDS))
        except Empty:
            return 0
        job = Job.from_line(line)
        _be_humble(job)
        for update in does(job, spent):
            told.write(update.to_line())
        if update.outcome == "failed":
            return 1
        memory = psutil.virtual_memory()
        if memory.available < SPARE * memory.total:
            return 0
        spent = time.process_time()


def does(job: Job, spent: float | None = None) -> Iterator[Update]:
    """The job's update, again whenever it got on; the last one has `ended`, or failed. spent: processor seconds this
    process took for something else; None: all so far."""
    spent = time.process_time() if spent is None else spent
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
        cpu_seconds=time.process_time() - spent, peak_mb=system.peak_memory() / 1e6,
    )  # fmt: skip


def _be_humble(job: Job) -> None:
    """Lowest useful priority, and no more threads than the job may have; libraries look for that when they load."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    system.lower_priority()
    system.give_back_memory(2 << 20)
    import torch

    if torch.get_num_interop_threads() > 1:  # may be said once
        torch.set_num_interop_threads(1)


def _hand_on(lines: SimpleQueue[str]) -> None:
    """What the app says; its end is this process's."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(2)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for a reader thread that blocks on stdin
