"""Starting, pausing and ending the training process from the app. It knows nothing of what is trained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from omnidraft.learning.job import Job
from omnidraft.learning.trainer_events import Ended, Event, Finished, from_line
from omnidraft.processes import system
from omnidraft.processes.line_child import LineChild
from omnidraft.storage.vault import with_keys

OnEvent = Callable[[Event], None]
MODULE = "omnidraft.learning.training.trainer"
PARTS = ("replay", "adapters", "merged")  # what training reads and writes of an encrypted profile


@dataclass(frozen=True)
class _Following:
    """A job at work. over: all its events were delivered."""

    on_event: OnEvent
    over: threading.Event = field(default_factory=threading.Event)


class TrainerProcess:
    """A training process and the job it does; when that is done it waits for another (`begin`) or its end (`kill`).

    `on_event` is called from a thread of its own, last with `Ended`. The child leads a process group of its own in our
    session: if we are killed while it is stopped, the system wakes and ends it (an orphaned group with stopped members
    gets SIGHUP and SIGCONT); if it runs, it notices that stdin closed. free_since: monotonic seconds, once it waits.
    """

    def __init__(self, job: Job, on_event: OnEvent) -> None:
        self._job: _Following | None = _Following(on_event)
        self._first, self._last, self._gone = job, self._job, False
        self._lock = threading.Lock()
        self.paused = False
        self.free_since = 0.0
        self._child = LineChild(MODULE)
        self._child.say(with_keys(job.to_line(), Path(job.store), PARTS))
        self._reader = threading.Thread(target=self._read, name="trainer-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.running

    @property
    def waiting(self) -> bool:
        """Whether it is there and has nothing to do."""
        return self._job is None and self.running

    def takes(self, job: Job) -> bool:
        """Whether it waits, and was started for the same profile, drafter and number of threads: everything else that
        decides what comes of a job is in the job."""
        return self.waiting and _belongings(job) == _belongings(self._first)

    def begin(self, job: Job, on_event: OnEvent) -> None:
        """Do another job that it `takes`; if it has just died, all that comes of it is `Ended`."""
        self.resume()  # an answer may have begun just when the job before was over
        with self._lock:
            gone = self._gone
            if not gone:
                self._job = self._last = _Following(on_event)
        if gone:
            on_event(Ended(self._child.process.returncode, ""))
        else:
            self._child.say(job.to_line())

    def pause(self) -> None:
        """Stop it where it is; takes effect within a millisecond or so and costs the caller microseconds."""
        with self._lock:
            if not self.paused and self.running:
                system.suspend(self.pid)
                self.paused = True

    def resume(self) -> None:
        with self._lock:
            if self.paused and self.running:
                system.resume(self.pid)
            self.paused = False

    def kill(self) -> None:
        """End it at once; what it has not published is lost, nothing else. Returns when its memory is released."""
        self._child.kill()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether its job is over, and all events of it delivered."""
        return self._last.over.wait(seconds)

    def _read(self) -> None:
        for line in self._child.lines():
            if (event := from_line(line)) is None:
                continue
            self._tell(event)
            if isinstance(event, Finished):
                self._end_job(Ended(0, ""))
        code = self._child.ended()
        said = self._child.last_words().splitlines()
        self._end_job(Ended(code, said[-1] if code and said else ""), gone=True)

    def _tell(self, event: Event) -> None:
        if (job := self._job) is not None:
            job.on_event(event)

    def _end_job(self, ended: Ended, *, gone: bool = False) -> None:
        with self._lock:
            job, self._job = self._job, None
            self._gone, self.free_since = gone, time.monotonic()
        if job is not None:
            job.on_event(ended)
            job.over.set()


def _belongings(job: Job) -> tuple[str, str, str, int]:
    return job.replay, job.drafter, job.fingerprint, job.threads
