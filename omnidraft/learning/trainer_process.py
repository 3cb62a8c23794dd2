"""Starting, pausing and ending the training process from the app. It knows nothing of what is trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnidraft.learning.job import Job
from omnidraft.learning.trainer_events import Ended, Event, from_line

OnEvent = Callable[[Event], None]
_ROOT = Path(__file__).resolve().parents[2]


class TrainerProcess:
    """One run of the trainer. `on_event` is called from a thread of its own, last with `Ended`.

    The child leads a process group of its own in our session: if we are killed while it is stopped, the system wakes
    and ends it (an orphaned group with stopped members gets SIGHUP and SIGCONT); if it runs, it notices that stdin
    closed.
    """

    def __init__(self, job: Job, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process writes to it
        self._lock = threading.Lock()
        self.paused = False
        options: dict[str, Any] = {"process_group": 0}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NO_WINDOW}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "omnidraft.learning.training.trainer"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment, text=True, **options,
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(job.to_line())
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, name="trainer-events", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Stop it where it is; takes effect within a millisecond or so and costs the caller microseconds."""
        with self._lock:
            if not self.paused and self.running:
                self._signal(stop=True)
                self.paused = True

    def resume(self) -> None:
        with self._lock:
            if self.paused and self.running:
                self._signal(stop=False)
            self.paused = False

    def kill(self) -> None:
        """End it at once; what it has not published is lost, nothing else. Returns when its memory is released."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def wait(self, seconds: float | None = None) -> int | None:
        """Exit code, after all events were delivered; None if it still runs."""
        self._reader.join(seconds)
        return None if self._reader.is_alive() else self._process.returncode

    def _signal(self, stop: bool) -> None:
        with suppress(OSError):
            if os.name == "nt":
                import psutil

                child = psutil.Process(self.pid)
                (child.suspend if stop else child.resume)()
            else:
                os.kill(self.pid, signal.SIGSTOP if stop else signal.SIGCONT)

    def _read(self) -> None:
        told, asked = self._process.stdout, self._process.stdin
        assert told is not None
        assert asked is not None
        for line in told:
            if (event := from_line(line)) is not None:
                self._on_event(event)
        code = self._process.wait()
        with suppress(OSError):
            asked.close()
        told.close()
        self._on_event(Ended(code, self._last_words() if code else ""))
        self._errors.close()

    def _last_words(self) -> str:
        """The last line the process wrote to stderr."""
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""
