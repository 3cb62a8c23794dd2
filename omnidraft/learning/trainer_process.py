"""Starting, pausing and ending the training process from the app. It knows nothing of what is trained."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from omnidraft import system
from omnidraft.learning.job import Job
from omnidraft.learning.trainer_events import Ended, Event, from_line
from omnidraft.line_child import LineChild
from omnidraft.vault import with_keys

OnEvent = Callable[[Event], None]
PARTS = ("replay", "adapters", "merged")  # what training reads and writes of an encrypted profile


class TrainerProcess:
    """One run of the trainer. `on_event` is called from a thread of its own, last with `Ended`.

    The child leads a process group of its own in our session: if we are killed while it is stopped, the system wakes
    and ends it (an orphaned group with stopped members gets SIGHUP and SIGCONT); if it runs, it notices that stdin
    closed.
    """

    def __init__(self, job: Job, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._lock = threading.Lock()
        self.paused = False
        self._child = LineChild("omnidraft.learning.training.trainer")
        self._child.say(with_keys(job.to_line(), Path(job.store), PARTS))
        self._reader = threading.Thread(target=self._read, name="trainer-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.running

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

    def wait(self, seconds: float | None = None) -> int | None:
        """Exit code, after all events were delivered; None if it still runs."""
        self._reader.join(seconds)
        return None if self._reader.is_alive() else self._child.process.returncode

    def _read(self) -> None:
        for line in self._child.lines():
            if (event := from_line(line)) is not None:
                self._on_event(event)
        code = self._child.ended()
        said = self._child.last_words().splitlines()
        self._on_event(Ended(code, said[-1] if code and said else ""))
