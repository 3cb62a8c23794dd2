"""The training process as the app has it: started with a job, stopped for answers, kept for a while behind a job.

Loading its libraries and reading the drafter takes longer than many an update, so behind a job it waits for another
without computing, and goes when memory is wanted or the wait gets long. What is trained, and when, is not known here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import psutil

from omnidraft.learning.update import Job, Update
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.storage.vault import with_keys

MODULE = "omnidraft.learning.training.process_main"
PARTS = ("replay", "adapters", "merged")  # what training reads and writes of an encrypted profile
SPARE = 0.2  # share of the machine's memory that must be free while a process only waits


class TrainingProcess:
    """At most one process, which does one job at a time. Methods may be called from any thread.

    A job's update comes from a thread of this object's, again whenever it got on; the last one has `ended`. The child
    leads a process group of its own in our session: if we are killed while it is stopped, the system wakes and ends it
    (an orphaned group with stopped members gets SIGHUP and SIGCONT); if it runs, it notices that stdin closed.
    """

    def __init__(self) -> None:
        self.paused = False
        self._child: LineChild | None = None
        self._reader = threading.Thread()
        self._belongings: tuple[str, str, str, int] | None = None  # of the job it was started with
        self._tell: Callable[[Update], object] | None = None  # of the job at work
        self._update: Update | None = None  # what it said last
        self._why = ""  # it was ended
        self._gone = False  # whether it has ended and all it said was heard
        self._waiting_since = 0.0
        self._lock = threading.Lock()
        self._changing = threading.Lock()  # held while a job begins, or the process goes because it has none

    @property
    def pid(self) -> int | None:
        """Of the process, at work or waiting; None while there is none."""
        return self._child.pid if self._child is not None and self._child.running else None

    @property
    def waiting(self) -> bool:
        """Whether it is there and has nothing to do."""
        return self._tell is None and self.pid is not None

    def start(self, job: Job, tell: Callable[[Update], object]) -> None:
        """The process that waits does the job if it was started for the same profile, drafter and number of threads
        (all else that decides what comes of a job is in the job); else one that is started for it."""
        belongings = job.replay, job.drafter, job.fingerprint, job.threads
        with self._changing:
            if not self.waiting or belongings != self._belongings:
                self.kill()
                self._gone = False
                self._begin(job, tell)
                self._belongings, self._child = belongings, LineChild(MODULE)
                self._reader = threading.Thread(target=self._read, args=(self._child,), name="training", daemon=True)
                self._reader.start()
                self._child.say(with_keys(job.to_line(), Path(job.store), PARTS))
            elif self._child is not None:
                self.resume()  # an answer may have begun just when the job before was over
                self._begin(job, tell)
                self._child.say(job.to_line())
                if self._gone:  # it has just died, and nobody else would say so
                    self._conclude(self._child.process.returncode, "")

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
            if threading.current_thread() is not self._reader:
                self._reader.join()
            self.paused = False

    def let_go(self) -> None:
        """End the process if it only waits."""
        with self._changing:
            if self.waiting:
                self.kill()

    def let_go_unless(self, minutes: float) -> None:
        """End a process that has waited `minutes`, or while memory is short."""
        if (left := self.seconds_left(minutes)) is not None and (left <= 0 or _memory_is_short()):
            self.let_go()

    def seconds_left(self, minutes: float) -> float | None:
        """Until a process that waits has waited `minutes`; None while none does."""
        return max(0.0, self._waiting_since + 60 * minutes - time.monotonic()) if self.waiting else None

    def _begin(self, job: Job, tell: Callable[[Update], object]) -> None:
        with self._lock:
            self._tell, self._update, self._why = tell, job.update, ""

    def _read(self, child: LineChild) -> None:
        for line in child.lines():
            if (update := Update.from_line(line)) is not None:
                self._hear(update)
        code = child.ended()
        words = child.last_words().splitlines()
        self._gone = True  # before the job at work is concluded: one that begins after that looks
        self._conclude(code, words[-1] if code and words else "")

    def _conclude(self, code: int, last_words: str) -> None:
        if self._tell is not None and self._update is not None:
            self._hear(self._update.concluded(code, last_words, self._why))

    def _hear(self, update: Update) -> None:
        with self._lock:
            tell, self._update = self._tell, update
            if update.ended is not None:
                self._tell, self._waiting_since = None, time.monotonic()
        if tell is not None:
            tell(update)


def _memory_is_short() -> bool:
    memory = psutil.virtual_memory()
    return memory.available < SPARE * memory.total
