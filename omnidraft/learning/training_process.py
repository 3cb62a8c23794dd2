"""The training process as the app has it: started with a job, stopped for answers, gone with its job and its memory.

What is trained, and when, is not known here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

from omnidraft.learning.update import Job, Update
from omnidraft.processes import system
from omnidraft.processes.children import LineChild
from omnidraft.storage.vault import with_keys

MODULE = "omnidraft.learning.training.process_main"
PARTS = ("replay", "adapters")  # what training reads and writes of an encrypted profile


class TrainingProcess:
    """At most one process, which does one job. Methods may be called from any thread.

    A job's update comes from a thread of this object's, again whenever it got on; the last one has `ended`, and comes
    when the process is gone. The child leads a process group of its own in our session: if we are killed while it is
    stopped, the system wakes and ends it (an orphaned group with stopped members gets SIGHUP and SIGCONT); if it runs,
    it notices that stdin closed.
    """

    def __init__(self) -> None:
        self.paused = False
        self._child: LineChild | None = None
        self._reader = threading.Thread()
        self._why = ""  # it was ended
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """None while there is none."""
        return self._child.pid if self._child is not None and self._child.running else None

    def start(self, job: Job, tell: Callable[[Update], object]) -> None:
        """In the place of a process that may be at work."""
        self.kill()
        self._why, self._child = "", LineChild(MODULE)
        self._reader = threading.Thread(
            target=self._read, args=(self._child, job.update, tell), name="training", daemon=True
        )
        self._reader.start()
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
            if threading.current_thread() is not self._reader:
                self._reader.join()
            self.paused = False

    def _read(self, child: LineChild, update: Update, tell: Callable[[Update], object]) -> None:
        for line in child.lines():
            update = Update.from_line(line) or update
            if update.ended is None:
                tell(update)
        code, words = child.ended(), child.last_words().splitlines()
        tell(update.concluded(code, words[-1] if code and words else "", self._why))
